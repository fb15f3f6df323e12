"""Records which pods a Service did not list as ready. A watch of the endpoints runs during a test."""

from typing import Any

from kubernetes import client, config, watch

from demo.recorder import Recorder
from tests.e2e.pods import Pods

WATCH_SECONDS = 5


class EndpointRecorder(Recorder):
    """A recorder of the pods that a resource's Service has shown as not ready, even for a short time."""

    def __init__(self, pods: Pods) -> None:
        """Create the recorder without starting the watch."""
        super().__init__()
        self._api: Any = client.DiscoveryV1Api(config.new_client_from_config(str(pods.installed.kubeconfig)))
        self._namespace, self._selector = pods.namespace, f"kubernetes.io/service-name={pods.name}"
        self.left_out: set[str] = set()

    def record(self) -> None:
        """Watch the endpoints. When a watch expires, start a new watch, which first lists all endpoints."""
        listing = self._api.list_namespaced_endpoint_slice
        while not self.stopped.is_set():
            options = {"label_selector": self._selector, "timeout_seconds": WATCH_SECONDS}
            for event in watch.Watch().stream(listing, self._namespace, **options):
                shown = event["object"].endpoints or ()
                self.left_out.update(each.target_ref.name for each in shown if not each.conditions.ready)
