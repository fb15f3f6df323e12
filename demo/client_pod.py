"""A Python script that runs in a pod of the cluster, as an ordinary client of a model."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Kubectl = Callable[..., str]
TIMEOUT = "--timeout=120s"


@dataclass(frozen=True)
class ClientPod:
    """A pod that runs `script` in `image`, which needs only python3. Pod and ConfigMap have the same `name`.

    `kubectl(*arguments, stdin=None)` returns the output of kubectl. `cpu` is the CPU request of the pod.
    """

    kubectl: Kubectl
    namespace: str
    name: str
    image: str
    script: Path
    cpu: str = "0"

    def start(self, *arguments: str) -> None:
        """Create the pod, without waiting for its start."""
        manifests = {"apiVersion": "v1", "kind": "List", "items": [self._config_map(), self._pod(list(arguments))]}
        self._run("apply", "-f", "-", stdin=json.dumps(manifests))

    def interrupt(self) -> None:
        """Wait until the pod runs, and send SIGTERM to the script."""
        self._run("wait", f"pod/{self.name}", "--for=condition=Ready", TIMEOUT)
        self._run("exec", self.name, "--", "/bin/sh", "-c", "kill -TERM 1")

    def finish(self) -> str:
        """Wait until the pod has ended, remove it, and return its output."""
        self._run("wait", f"pod/{self.name}", "--for=jsonpath={.status.phase}=Succeeded", TIMEOUT)
        log = self._run("logs", self.name)
        self._run("delete", f"pod/{self.name}", f"configmap/{self.name}", "--wait=true")
        return log

    def _run(self, *arguments: str, stdin: str | None = None) -> str:
        return self.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)

    def _metadata(self) -> dict[str, str]:
        return {"name": self.name, "namespace": self.namespace}

    def _config_map(self) -> dict[str, Any]:
        data = {self.script.name: self.script.read_text()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata(), "data": data}

    def _pod(self, arguments: list[str]) -> dict[str, Any]:
        container = {
            "name": "client",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-u", f"/script/{self.script.name}", *arguments],
            "volumeMounts": [{"name": "script", "mountPath": "/script"}],
            "resources": {"requests": {"cpu": self.cpu}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "script", "configMap": {"name": self.name}}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self._metadata(), "spec": spec}
