"""Access of the command line tools to the cluster that the kubeconfig selects.

All methods raise ConfigError with a message of one sentence if the API server does not respond, refuses the request, or
does not have the object.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError
from yaml import YAMLError

from gaudi_operator.api.v1alpha1.resource import GROUP, KIND, PLURAL, VERSION
from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.errors import ConfigError

FIELD_MANAGER = "kubectl-gaudi"
TIMEOUT_SECONDS = 10
STATUS_PORT = ServingConfig().status_port
Manifest = dict[str, Any]
Patch = list[dict[str, Any]] | dict[str, Any]
"""A patch: a list is a JSON patch (RFC 6902), a map is a merge patch."""
MALFORMED = (YAMLError, OSError, AttributeError, TypeError, ValueError)
"""The errors of the client library if a kubeconfig is malformed. The library does not validate kubeconfigs."""


@dataclass(frozen=True)
class Connection:
    """The options that select the cluster of a command: kubeconfig, context and namespace.

    If an option is None, the default of kubectl applies.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    def create_client(self) -> Any:
        """Return a client of the API server. Raises ConfigError if no cluster is configured."""
        settings = client.Configuration()
        # Disable retries. By default, the client sends a failed request three times and waits for the full timeout each
        # time.
        settings.retries = False
        try:
            if self._is_in_pod():
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(self._kubeconfig_path(), context=self.context, client_configuration=settings)
        except config.ConfigException as error:
            raise ConfigError(f"no cluster is configured: {_cause(error)}. Set KUBECONFIG as for kubectl") from error
        except MALFORMED as error:
            raise ConfigError(
                f"no cluster is configured: {self._kubeconfig_path()} is not a kubeconfig. Set KUBECONFIG"
            ) from error
        return client.ApiClient(settings)

    def selected_namespace(self) -> str:
        """Return the namespace from the option --namespace, or else the namespace of the context."""
        if self.namespace:
            return self.namespace
        try:
            contexts, current_context = config.list_kube_config_contexts(self._kubeconfig_path())
        except (config.ConfigException, *MALFORMED):
            return "default"
        selected_context = next((context for context in contexts if context["name"] == self.context), current_context)
        return str(selected_context.get("context", {}).get("namespace") or "default")

    def _kubeconfig_path(self) -> str:
        """Return the path of the kubeconfig. KUBECONFIG is read at each call; the library reads it only at import."""
        return self.kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION

    def _is_in_pod(self) -> bool:
        has_file = any(Path(path).expanduser().exists() for path in self._kubeconfig_path().split(os.pathsep) if path)
        return not has_file and not self.kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ


class Cluster:
    """The access of a command to one namespace of the cluster that the kubeconfig and the options select."""

    def __init__(self, connection: Connection) -> None:
        """Open the connection. Raises ConfigError if no cluster is configured."""
        self._api = connection.create_client()
        self._custom_objects = client.CustomObjectsApi(self._api)
        self.namespace = connection.selected_namespace()

    def fetch_inference(self, name: str) -> Manifest:
        """Return the manifest of a GaudiInference."""
        with self._convert_errors("read", name):
            manifest: Any = self._custom_objects.get_namespaced_custom_object(
                GROUP, VERSION, self.namespace, PLURAL, name, _request_timeout=TIMEOUT_SECONDS
            )
        return dict(manifest)

    def find_lease(self, name: str, lease_namespace: str, lease_name: str) -> Manifest | None:
        """Return the Lease of the operator that reconciles the GaudiInference `name`; None if there is no Lease."""
        with self._convert_errors("read", name, f"the Lease {lease_namespace}/{lease_name} of the operator of "):
            path = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}"
            try:
                return dict(json.loads(self._send_request(path, namespace=lease_namespace, lease=lease_name)))
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def watch_inference(self, name: str, seconds: float) -> Iterator[Manifest]:
        """Yield the GaudiInference after every change, until `seconds` have passed or the connection breaks."""
        options = {"field_selector": f"metadata.name={name}", "timeout_seconds": max(1, round(seconds))}
        with self._convert_errors("watch", name):
            try:
                for event in watch.Watch().stream(
                    self._custom_objects.list_namespaced_custom_object,
                    *(GROUP, VERSION, self.namespace, PLURAL),
                    **options,
                    # The server ends the watch after `seconds`. The client's timeout is longer, so that it expires only
                    # if the connection is dead.
                    _request_timeout=(TIMEOUT_SECONDS, seconds + TIMEOUT_SECONDS),
                ):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        yield event["raw_object"]
            # A proxy may close a watch at any time. Return without an error: the caller then reads the resource again.
            except (ProtocolError, ReadTimeoutError):
                return

    def list_revisions(self, name: str) -> list[Manifest]:
        """Return the ControllerRevisions of a GaudiInference."""
        with self._convert_errors("list", name, "the revisions of "):
            response: Any = self._custom_objects.list_namespaced_custom_object(
                "apps",
                "v1",
                self.namespace,
                "controllerrevisions",
                label_selector=f"{NAME_LABEL}={name}",
                _request_timeout=TIMEOUT_SECONDS,
            )
        return list(response["items"])

    def patch_inference(self, name: str, patch: Patch) -> None:
        """Patch a GaudiInference."""
        with self._convert_errors("change", name):
            self._patch(GROUP, VERSION, PLURAL, name, patch)

    def patch_revision(self, name: str, revision_name: str, patch: Patch) -> None:
        """Patch the ControllerRevision of a revision of the GaudiInference `name`."""
        with self._convert_errors("change", name, "the revisions of "):
            self._patch("apps", "v1", "controllerrevisions", f"{name}-{revision_name}", patch)

    def list_pods(self, name: str) -> list[Manifest]:
        """Return the pods of a GaudiInference."""
        with self._convert_errors("list", name, "the pods of "):
            body = self._send_request(
                "/api/v1/namespaces/{namespace}/pods", query=[("labelSelector", f"{NAME_LABEL}={name}")]
            )
            return list(json.loads(body)["items"])

    def find_pod(self, pod: str) -> Manifest | None:
        """Return the pod of any GaudiInference, or None if no pod with this name has the label of a GaudiInference."""
        query = [("labelSelector", NAME_LABEL), ("fieldSelector", f"metadata.name={pod}")]
        with self._convert_errors("list", "resources", "pods of "):
            pods = json.loads(self._send_request("/api/v1/namespaces/{namespace}/pods", query))["items"]
            return next(iter(pods), None)

    def query_pod(self, name: str, pod_name: str, path: str) -> str:
        """Send a GET request to the status port of a pod through the API server, and return the response body."""
        with self._convert_errors("ask", name, f"pod {pod_name} of "):
            proxy_path = f"/api/v1/namespaces/{{namespace}}/pods/{{pod}}:{STATUS_PORT}/proxy{path}"
            return self._send_request(proxy_path, pod=pod_name).decode()

    def read_pod(self, name: str, pod: str) -> Manifest:
        """Return a pod of the GaudiInference `name`."""
        with self._convert_errors("read", name, f"pod {pod} of "):
            return dict(json.loads(self._send_request("/api/v1/namespaces/{namespace}/pods/{pod}", pod=pod)))

    def patch_pod_status(self, name: str, pod: str, patch: Mapping[str, Any]) -> None:
        """Patch the status of a pod of the GaudiInference `name`. Conditions are merged by their type."""
        with self._convert_errors("change", name, f"the status of pod {pod} of "):
            path = "/api/v1/namespaces/{namespace}/pods/{pod}/status"
            query = [("fieldManager", FIELD_MANAGER)]
            self._send_request(path, query, "PATCH", patch, content_type="strategic-merge-patch+json", pod=pod)

    def _send_request(
        self,
        path: str,
        query: list[tuple[str, str]] | None = None,
        verb: str = "GET",
        payload: Mapping[str, Any] | None = None,
        content_type: str = "json",
        **names: str,
    ) -> bytes:
        """Send a request and return the response body. The library's pod class is unused: its import takes over 1 s."""
        path_parameters = {"namespace": self.namespace, **names}
        headers = {"Content-Type": f"application/{content_type}"} if payload else {}
        request = self._api.param_serialize(
            verb, path, path_parameters, query, headers, payload, auth_settings=["BearerToken"]
        )
        response = self._api.call_api(*request, _request_timeout=TIMEOUT_SECONDS)
        body = bytes(response.read() or b"")
        if not 200 <= response.status < 300:
            raise ApiException(status=response.status, reason=response.reason, body=body.decode(errors="replace"))
        return body

    def _patch(self, group: str, version: str, plural: str, name: str, patch: Patch) -> None:
        patch_type = "merge-patch" if isinstance(patch, dict) else "json-patch"
        self._custom_objects.patch_namespaced_custom_object(
            *(group, version, self.namespace, plural, name),
            body=patch,
            field_manager=FIELD_MANAGER,
            _content_type=f"application/{patch_type}+json",
            _request_timeout=TIMEOUT_SECONDS,
        )

    @contextmanager
    def _convert_errors(self, verb: str, name: str, part: str = "") -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            raise ConfigError(
                self._error_message(error, verb, part, f"{KIND} {name} in namespace {self.namespace}")
            ) from error
        except HTTPError as error:
            raise ConfigError(f"the cluster of the current context does not answer: {_cause(error)}") from error

    def _error_message(self, error: ApiException, verb: str, part: str, resource: str) -> str:
        match error.status:
            # HTTP 404 for a part of a resource, such as a pod, does not mean that the resource itself is missing.
            case 404 if not part:
                return f"there is no {resource}"
            case 401 | 403:
                return f"the current context may not {verb} {part}{resource} (HTTP {error.status})"
        message = _server_message(error)
        return (
            f"the API server answered HTTP {error.status} {error.reason} for "
            f"{resource}{f': {message}' if message else ''}"
        )


def _server_message(error: ApiException) -> str:
    """Return the API server's error message without the full stop; empty if the response has no message."""
    try:
        return str(json.loads(error.body or "{}").get("message", "")).rstrip(".")
    except (ValueError, TypeError, AttributeError):
        return ""


def _cause(error: Exception) -> str:
    """Return the message of a client error on one line, without the full stop."""
    return " ".join(str(getattr(error, "reason", None) or error).split()).rstrip(".")
