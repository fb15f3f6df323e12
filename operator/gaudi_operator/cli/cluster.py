"""What commands for people ask of one cluster, and the patches that they send to it.

Every method raises ConfigError with one sentence when the API server does not answer, refuses, or has no such object.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from gaudi_operator.api.v1alpha1.resource import GROUP, KIND, PLURAL, VERSION
from gaudi_operator.cli.connection import Way, cause
from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.errors import ConfigError

FIELD_MANAGER = "kubectl-gaudi"
TIMEOUT_SECONDS = 10
STATUS_PORT = ServingConfig().status_port
Manifest = dict[str, Any]
Patch = list[dict[str, Any]] | dict[str, Any]
"""A JSON patch (RFC 6902) where it is a list, else a merge patch."""


def read_inference(name: str, namespace: str | None) -> Manifest:
    """The manifest of a GaudiInference; without a namespace, in that of the current context."""
    return Cluster(Way(namespace=namespace)).inference(name)


class Cluster:
    """One namespace of the cluster that kubectl would talk to."""

    def __init__(self, way: Way) -> None:
        """Nothing is asked yet. Raises ConfigError when no cluster is known."""
        api = way.open()
        self._objects, self._core = client.CustomObjectsApi(api), client.CoreV1Api(api)
        self.namespace = way.place()

    def inference(self, name: str) -> Manifest:
        """The manifest of a GaudiInference."""
        with self._asking("read", name):
            found: Any = self._objects.get_namespaced_custom_object(
                GROUP, VERSION, self.namespace, PLURAL, name, _request_timeout=TIMEOUT_SECONDS
            )
        return dict(found)

    def changes(self, name: str, seconds: float) -> Iterator[Manifest]:
        """The GaudiInference after every change, for at most so many seconds; ends early when the line breaks."""
        asked = {"field_selector": f"metadata.name={name}", "timeout_seconds": max(1, round(seconds))}
        with self._asking("watch", name):
            try:
                for event in watch.Watch().stream(
                    self._objects.list_namespaced_custom_object,
                    *(GROUP, VERSION, self.namespace, PLURAL),
                    **asked,
                    _request_timeout=(TIMEOUT_SECONDS, seconds + TIMEOUT_SECONDS),
                ):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        yield event["raw_object"]
            except (ProtocolError, ReadTimeoutError):
                return

    def revisions(self, name: str) -> list[Manifest]:
        """The ControllerRevisions of a GaudiInference."""
        with self._asking("list the revisions of", name):
            found: Any = self._objects.list_namespaced_custom_object(
                "apps",
                "v1",
                self.namespace,
                "controllerrevisions",
                label_selector=f"{NAME_LABEL}={name}",
                _request_timeout=TIMEOUT_SECONDS,
            )
        return list(found["items"])

    def patch(self, name: str, patch: Patch) -> None:
        """Change a GaudiInference."""
        with self._asking("change", name):
            self._patch(GROUP, VERSION, PLURAL, name, patch)

    def patch_revision(self, name: str, revision: str, patch: Patch) -> None:
        """Change the ControllerRevision of a revision of the GaudiInference `name`."""
        with self._asking("change the revisions of", name):
            self._patch("apps", "v1", "controllerrevisions", f"{name}-{revision}", patch)

    def pods(self, name: str) -> list[Manifest]:
        """The pods of a GaudiInference."""
        with self._asking("list the pods of", name):
            found = self._core.list_namespaced_pod(
                self.namespace,
                label_selector=f"{NAME_LABEL}={name}",
                _preload_content=False,
                _request_timeout=TIMEOUT_SECONDS,
            )
            return list(json.loads(_body(found))["items"])

    def ask_pod(self, name: str, pod: str, path: str) -> str:
        """What a pod of the GaudiInference `name` answers on its status port, through the API server."""
        with self._asking(f"ask pod {pod} of", name):
            return _body(
                self._core.connect_get_namespaced_pod_proxy_with_path(
                    f"{pod}:{STATUS_PORT}",
                    self.namespace,
                    path,
                    _preload_content=False,
                    _request_timeout=TIMEOUT_SECONDS,
                )
            ).decode()

    def _patch(self, group: str, version: str, plural: str, name: str, patch: Patch) -> None:
        kind = "merge-patch" if isinstance(patch, dict) else "json-patch"
        self._objects.patch_namespaced_custom_object(
            *(group, version, self.namespace, plural, name),
            body=patch,
            field_manager=FIELD_MANAGER,
            _content_type=f"application/{kind}+json",
            _request_timeout=TIMEOUT_SECONDS,
        )

    @contextmanager
    def _asking(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            raise ConfigError(self._refusal(error, verb, f"{KIND} {name} in namespace {self.namespace}")) from error
        except HTTPError as error:
            raise ConfigError(f"the cluster of the current context does not answer: {cause(error)}") from error

    def _refusal(self, error: ApiException, verb: str, what: str) -> str:
        match error.status:
            case 404 if " " not in verb:
                return f"there is no {what}"
            case 401 | 403:
                return f"the current context may not {verb} {what} (HTTP {error.status})"
        said = _message(error)
        return f"the API server answered HTTP {error.status} {error.reason} for {what}{f': {said}' if said else ''}"


def _body(answer: Any) -> bytes:
    """Bytes of an answer that was asked for as it is: the client looks at no status code then."""
    if not 200 <= answer.status < 300:
        raise ApiException(status=answer.status, reason=answer.reason)
    return bytes(answer.data)


def _message(error: ApiException) -> str:
    """What the API server says about it in words, without its last dot."""
    try:
        return str(json.loads(error.body or "{}").get("message", "")).rstrip(".")
    except (ValueError, TypeError, AttributeError):
        return ""
