"""Reading one GaudiInference from the cluster that kubectl would talk to."""

from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from gaudi_operator.api.v1alpha1.resource import GROUP, KIND, PLURAL, VERSION
from gaudi_runtime.errors import ConfigError

TIMEOUT_SECONDS = 10


def read_inference(name: str, namespace: str | None) -> dict[str, Any]:
    """The manifest of a GaudiInference; without a namespace, in that of the current context.

    Raises ConfigError when there is no kubeconfig, no answer, no right to read it, or no such object.
    """
    place = namespace or _current_namespace()
    try:
        manifest: dict[str, Any] = _api().get_namespaced_custom_object(
            GROUP, VERSION, place, PLURAL, name, _request_timeout=TIMEOUT_SECONDS
        )
    except ApiException as error:
        raise ConfigError(_refusal(error, name, place)) from error
    except HTTPError as error:
        raise ConfigError(f"the cluster of the current context does not answer: {_cause(error)}") from error
    return manifest


def _api() -> Any:
    settings = client.Configuration()
    settings.retries = False
    try:
        config.load_config(client_configuration=settings)
    except (config.ConfigException, OSError) as error:
        raise ConfigError(f"no cluster is known: {str(error).rstrip('.')}; set KUBECONFIG as for kubectl") from error
    return client.CustomObjectsApi(client.ApiClient(settings))


def _current_namespace() -> str:
    try:
        _, current = config.list_kube_config_contexts()
    except config.ConfigException:
        return "default"
    return str(current.get("context", {}).get("namespace") or "default")


def _refusal(error: ApiException, name: str, namespace: str) -> str:
    match error.status:
        case 404:
            return f"there is no {KIND} {name} in namespace {namespace}"
        case 401 | 403:
            return f"the current context may not read {KIND} {name} in namespace {namespace} (HTTP {error.status})"
    return f"the API server answered HTTP {error.status} {error.reason} for {KIND} {name} in namespace {namespace}"


def _cause(error: Exception) -> str:
    return " ".join(str(getattr(error, "reason", None) or error).split())
