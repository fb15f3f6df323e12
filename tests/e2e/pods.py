"""Pods, endpoints and events of a resource, as a user sees them with kubectl."""

import json
from dataclasses import dataclass
from typing import Any

from kubernetes import client, config, watch

from demo.install import Installation
from gaudi_operator.core.names import GATE, NAME_LABEL
from localcluster.node.node import Node

TIMEOUT = "--timeout=180s"
EVENT_SECONDS = 60


@dataclass(frozen=True)
class Pods:
    """The pods of the GaudiInference `name`."""

    installed: Installation
    namespace: str
    name: str

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the resource's namespace."""
        return self.installed.kubectl("--namespace", self.namespace, *arguments)

    def now(self) -> list[dict[str, Any]]:
        """Return the pods that are not terminating."""
        return not_terminating(self.kubectl("get", "pods", "-l", f"{NAME_LABEL}={self.name}", "-o", "json"))

    def names(self) -> set[str]:
        """Return the names of the pods that are not terminating."""
        return {pod["metadata"]["name"] for pod in self.now()}

    def only(self) -> dict[str, Any]:
        """Return the only pod. Fail if the number of pods is not one."""
        (pod,) = self.now()
        return pod

    def restarts(self) -> dict[str, int]:
        """Return the restart counts of the pods' containers, by pod UID."""
        return {
            pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))
            for pod in self.now()
        }

    def wait_endpoint(self, pod: str, ready: bool) -> None:
        """Wait until the EndpointSlice shows the readiness `ready` for `pod`."""
        path = f'{{.endpoints[?(@.targetRef.name=="{pod}")].conditions.ready}}'
        selector = f"kubernetes.io/service-name={self.name}"
        self.kubectl("wait", "endpointslice", "-l", selector, f"--for=jsonpath={path}={str(ready).lower()}", TIMEOUT)

    def wait_gone(self, names: set[str]) -> None:
        """Wait until the pods `names` are deleted."""
        for name in names:
            self.kubectl("wait", f"pod/{name}", "--for=delete", TIMEOUT)

    def wait_event(self, sentence: str, reason: str = "") -> None:
        """Wait for an event with `sentence` in its message and, if set, with `reason`.

        Raise TimeoutError if no such event appears.
        """
        api: Any = client.CoreV1Api(config.new_client_from_config(str(self.installed.kubeconfig)))
        selector = f"involvedObject.kind=GaudiInference,involvedObject.name={self.name}"
        selector += f",reason={reason}" if reason else ""
        seen: list[str] = []
        for event in watch.Watch().stream(
            api.list_namespaced_event, self.namespace, field_selector=selector, timeout_seconds=EVENT_SECONDS
        ):
            seen.append(event["object"].message)
            if sentence in seen[-1]:
                return
        raise TimeoutError(f"No event of {self.name} contains {sentence!r}: {seen}")


def kill(installed: Installation, pod: dict[str, Any]) -> None:
    """Kill the container of `pod`, as the kernel does if memory runs out."""
    node = installed.cluster
    assert isinstance(node, Node), "Containers can be killed only on the embedded node: unset KUBECONFIG."
    node.ctr("tasks", "kill", "--signal", "SIGKILL", container_id(pod))


def not_terminating(listed: str) -> list[dict[str, Any]]:
    """Return the objects that are not terminating, from the output of `kubectl get -o json`."""
    return [each for each in json.loads(listed)["items"] if "deletionTimestamp" not in each["metadata"]]


def container_id(pod: dict[str, Any]) -> str:
    """Return the containerd ID of the pod's container."""
    return str(pod["status"]["containerStatuses"][0]["containerID"]).removeprefix("containerd://")


def condition_of(pod: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the condition `kind` of a pod.

    Return a condition with the status None if the pod has no such condition yet.
    """
    found = [each for each in pod["status"].get("conditions", ()) if each["type"] == kind]
    return dict(found[0]) if found else {"type": kind, "status": None}


def gate_of(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the gate condition of a pod."""
    return condition_of(pod, GATE)
