"""The warm-up reports of all pods during a block, with their batches without a warm graph."""

from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from pydantic import ValidationError
from urllib3.exceptions import HTTPError

from demo.recorder import Recorder
from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.report import WarmupReport

PERIOD_SECONDS = 0.25


class ReportRecorder(Recorder):
    """A recorder that reads the report of every pod of a resource through the API server's proxy."""

    def __init__(self, kubeconfig: str, namespace: str, name: str) -> None:
        """Create the recorder without reading a report."""
        super().__init__()
        self._api: Any = client.CoreV1Api(config.new_client_from_config(kubeconfig))
        self._namespace = namespace
        self._selector = f"{NAME_LABEL}={name}"
        self.last_reports: dict[str, WarmupReport] = {}
        """The last report of each observed instance."""

    def cold_requests(self) -> int:
        """Return the number of batches without a warm graph, over all instances."""
        return sum(shape.count for report in self.last_reports.values() for shape in report.cold_shapes)

    def recompiles(self) -> int:
        """Return the number of compiles on the request path, over all instances."""
        return sum(report.recompiles_since_ready for report in self.last_reports.values())

    def record(self) -> None:
        """Read every pod repeatedly, and once more at the end."""
        while not self.stopped.wait(PERIOD_SECONDS):
            self._read_reports()
        self._read_reports()

    def _read_reports(self) -> None:
        pods = self._api.list_namespaced_pod(self._namespace, label_selector=self._selector)
        for pod in pods.items:
            self._read_report(pod.metadata.name)

    def _read_report(self, pod: str) -> None:
        try:
            body = self._api.connect_get_namespaced_pod_proxy_with_path(
                f"{pod}:8001", self._namespace, "v1/warmup", _preload_content=False, _request_timeout=2
            ).data
            report = WarmupReport.model_validate_json(body)
        except (ApiException, HTTPError, ValidationError):
            return  # a pod that starts or ends does not report, so keep the last report
        self.last_reports[report.instance] = report
