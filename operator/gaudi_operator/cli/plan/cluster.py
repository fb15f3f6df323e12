"""Reading one GaudiInference from the cluster that kubectl would talk to."""

import os
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from gaudi_operator.api.v1alpha1.resource import GROUP, KIND, PLURAL, VERSION
from gaudi_runtime.errors import ConfigError

TIMEOUT_SECONDS = 10
MALFORMED = (YAMLError, OSError, AttributeError, TypeError, ValueError)
"""What the client meets in a kubeconfig of another shape, which it does not check."""


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
        if _inside_a_pod():
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(_kubeconfig(), client_configuration=settings)
    except config.ConfigException as error:
        raise ConfigError(f"no cluster is known: {_cause(error)}; set KUBECONFIG as for kubectl") from error
    except MALFORMED as error:
        raise ConfigError(f"no cluster is known: {_kubeconfig()} is not a kubeconfig; set KUBECONFIG") from error
    return client.CustomObjectsApi(client.ApiClient(settings))


def _kubeconfig() -> str:
    """Read at every call: the client's own default is what the variable was when it was imported."""
    return os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION


def _inside_a_pod() -> bool:
    known = any(Path(each).expanduser().exists() for each in _kubeconfig().split(os.pathsep) if each)
    return not known and "KUBERNETES_SERVICE_HOST" in os.environ


def _current_namespace() -> str:
    try:
        _, current = config.list_kube_config_contexts(_kubeconfig())
    except (config.ConfigException, *MALFORMED):
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
    return " ".join(str(getattr(error, "reason", None) or error).split()).rstrip(".")
