"""Records when the gate of each pod opened. A watch of the pods runs during a test."""

import re
import time
from typing import Any

from kubernetes import client, config, watch

from demo.recorder import Recorder
from gaudi_operator.core.names import GATE, REVISION_LABEL

WATCH_SECONDS = 5


class GateRecorder(Recorder):
    """A recorder of the time at which the watch first showed the gate of an instance as open."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        """Create the recorder without starting the watch."""
        super().__init__()
        self._api: Any = client.CoreV1Api(config.new_client_from_config(kubeconfig))
        self._namespace = namespace
        self._opened: dict[str, float] = {}
        self.revisions: dict[str, str] = {}
        """The revision of each instance whose gate was ever seen open."""

    def open_at(self, instance: str, moment: float) -> bool:
        """Return whether the watch showed an open gate of this instance by `moment` (seconds since the epoch)."""
        return self._opened.get(instance, float("inf")) <= moment

    def record(self) -> None:
        """Watch the pods. When a watch expires, start a new watch, which first lists all pods."""
        while not self.stopped.is_set():
            stream = watch.Watch().stream(self._api.list_namespaced_pod, self._namespace, timeout_seconds=WATCH_SECONDS)
            for event in stream:
                self._observe(event["object"])

    def _observe(self, pod: Any) -> None:
        for condition in pod.status.conditions or ():
            if condition.type == GATE and condition.status == "True":
                self._record_instance(condition.message, pod.metadata.labels[REVISION_LABEL])

    def _record_instance(self, message: str, revision: str) -> None:
        """Record the instance that the gate's message names."""
        found = re.search(r"instance ([0-9a-f]+)", message)
        assert found, f"The gate's message names no instance: {message}"
        self._opened.setdefault(found[1], time.time())
        self.revisions[found[1]] = revision
