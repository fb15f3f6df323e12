"""When each pod's gate was seen open: a watch that runs beside a test."""

import re
import time
from typing import Any

from kubernetes import client, config, watch

from demo.recorder import Recorder
from gaudi_operator.core.names import GATE, REVISION_LABEL

WATCH_SECONDS = 5


class GateRecorder(Recorder):
    """Notes the moment in which the watch first shows a runtime instance's gate open."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        """Nothing is watched yet."""
        super().__init__()
        self._api: Any = client.CoreV1Api(config.new_client_from_config(kubeconfig))
        self._namespace = namespace
        self._opened: dict[str, float] = {}
        self.revisions: dict[str, str] = {}
        """The revision of each instance whose gate was ever seen open."""

    def open_at(self, instance: str, moment: float) -> bool:
        """Whether the gate of this instance had been seen open by `moment` (seconds since the epoch)."""
        return self._opened.get(instance, float("inf")) <= moment

    def record(self) -> None:
        """A watch is never cut, only not renewed; a new one begins with all pods as they are."""
        while not self.done.is_set():
            stream = watch.Watch().stream(self._api.list_namespaced_pod, self._namespace, timeout_seconds=WATCH_SECONDS)
            for event in stream:
                self._look_at(event["object"])

    def _look_at(self, pod: Any) -> None:
        for condition in pod.status.conditions or ():
            if condition.type == GATE and condition.status == "True":
                self._note(condition.message, pod.metadata.labels[REVISION_LABEL])

    def _note(self, message: str, revision: str) -> None:
        """The gate's message names the instance that it was opened for."""
        found = re.search(r"instance ([0-9a-f]+)", message)
        assert found, f"The gate's message names no instance: {message}"
        self._opened.setdefault(found[1], time.time())
        self.revisions[found[1]] = revision
