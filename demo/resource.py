"""The GaudiInference of the demo in the API server."""

from collections.abc import Iterator
from typing import Any

from kubernetes import client, config, watch

from gaudi_operator.api.v1alpha1.resource import GROUP, PLURAL, VERSION


class Resource:
    """One GaudiInference, watched and patched with the permissions of a user."""

    def __init__(self, kubeconfig: str, namespace: str, name: str) -> None:
        """Create the client without sending a request."""
        self._api: Any = client.CustomObjectsApi(config.new_client_from_config(kubeconfig))
        self.namespace = namespace
        self.name = name

    def states(self, timeout: int) -> Iterator[dict[str, Any]]:
        """Yield every state from now on. Raises TimeoutError if the caller still iterates after `timeout` seconds."""
        arguments = {"group": GROUP, "version": VERSION, "namespace": self.namespace, "plural": PLURAL}
        selector = f"metadata.name={self.name}"
        stream = watch.Watch().stream(
            self._api.list_namespaced_custom_object, **arguments, field_selector=selector, timeout_seconds=timeout
        )
        for event in stream:
            yield event["object"]
        raise TimeoutError(f"GaudiInference {self.name} did not reach the expected state within {timeout} s.")

    def patch(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Merge `spec` into the resource and return the stored resource."""
        patched: dict[str, Any] = self._api.patch_namespaced_custom_object(
            GROUP, VERSION, self.namespace, PLURAL, self.name, {"spec": spec}
        )
        return patched


def condition(state: dict[str, Any], condition_type: str) -> dict[str, Any]:
    """Return the condition `condition_type` if it belongs to the current generation, or an Unknown condition."""
    for entry in state.get("status", {}).get("conditions", []):
        if entry["type"] == condition_type and entry.get("observedGeneration") == state["metadata"]["generation"]:
            return dict(entry)
    return {
        "type": condition_type,
        "status": "Unknown",
        "reason": "NotJudgedYet",
        "message": "The operator has not reconciled yet.",
    }


def is_ready(state: dict[str, Any]) -> bool:
    """Return True if the current generation is rolled out and every desired replica is ready."""
    return bool(condition(state, "Ready")["status"] == "True")


def is_stalled(state: dict[str, Any], reason: str) -> bool:
    """Return True if the current generation is stalled for `reason`. Other reasons may appear earlier."""
    stalled = condition(state, "Stalled")
    return bool((stalled["status"], stalled["reason"]) == ("True", reason))
