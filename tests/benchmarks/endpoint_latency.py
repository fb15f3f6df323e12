"""The time from the last captured graph until the pod's endpoint is ready in the EndpointSlice.

    python -m tests.benchmarks.endpoint_latency

The benchmark uses a real node, the operator from its chart, and pods of the sim engine, which simulates the warm-up.
The kubelet runs the readiness probe once a second, so the limit includes 1 s for the probe. The exit code is 1 if the
limit is missed.
"""

import json
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kubernetes import client, config, watch
from urllib3.exceptions import HTTPError

from demo import install
from demo.install import Installation
from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.ports import WARMUP_PATH
from gaudi_runtime.contract.report import Phase, WarmupReport
from localcluster import remove_cluster
from tests.benchmarks.figures import Figure, percentile, table
from tests.support.builders import gaudi_inference

PODS = 10
NAMESPACE = "bench"
NAME = "many"
PROBE_SECONDS = 1.0
LIMIT_SECONDS = PROBE_SECONDS + 1.0
PATIENCE_SECONDS = 300


def main() -> int:
    """Measure and print the table. Return 1 if the limit is missed."""
    installed = install.ensure_installation("bench")
    try:
        delays = sorted(measure(installed))
    finally:
        remove_cluster("bench")
    figures = [
        Figure(f"last capture -> endpoint, p50 of {PODS} pods", percentile(delays, 50), "s"),
        Figure(f"last capture -> endpoint, p99 of {PODS} pods", percentile(delays, 99), "s", LIMIT_SECONDS),
    ]
    sys.stdout.write(table(figures) + "\n")
    return int(any(figure.missed for figure in figures))


def measure(installed: Installation) -> list[float]:
    """Return, for each pod, the seconds from the first report with phase Serving to the ready endpoint."""
    installed.create_namespace(NAMESPACE)
    api: Any = config.new_client_from_config(str(installed.kubeconfig))
    endpoints = EndpointWatch(client.DiscoveryV1Api(api))
    installed.kubectl("apply", "--namespace", NAMESPACE, "-f", "-", stdin=json.dumps(_resource()))
    with ThreadPoolExecutor(PODS) as pool:
        warm = dict(pool.map(_warm_at, _addresses(client.CoreV1Api(api))))
    installed.kubectl("wait", "--namespace", NAMESPACE, "--for=condition=Ready", f"gi/{NAME}", "--timeout=120s")
    return [endpoints.ready[address] - moment for address, moment in warm.items()]


class EndpointWatch:
    """The time at which each address was first seen ready in an EndpointSlice, in monotonic seconds."""

    def __init__(self, api: Any) -> None:
        """Start the watch."""
        self.ready: dict[str, float] = {}
        threading.Thread(target=self._follow, args=(api,), daemon=True).start()

    def _follow(self, api: Any) -> None:
        with suppress(HTTPError):  # the cluster ends before the watch
            for event in watch.Watch().stream(api.list_namespaced_endpoint_slice, NAMESPACE):
                for endpoint in event["object"].endpoints or ():
                    if endpoint.conditions.ready:
                        self.ready.setdefault(endpoint.addresses[0], time.monotonic())


def _resource() -> dict[str, Any]:
    simulation = {"compileSeconds": "0.2", "captureSeconds": "0.2"}
    source = {"persistentVolumeClaim": None, "ociImage": {"reference": install.MODEL_IMAGE}}
    engine = {"name": "sim", "settings": simulation}
    return gaudi_inference(NAME, replicas=PODS, model={"source": source}, engine=engine)


def _addresses(api: Any) -> list[str]:
    """Return the addresses of all pods when every pod has one."""
    found: dict[str, str] = {}
    stream = watch.Watch().stream(
        api.list_namespaced_pod, NAMESPACE, label_selector=f"{NAME_LABEL}={NAME}", timeout_seconds=PATIENCE_SECONDS
    )
    for event in stream:
        if address := event["object"].status.pod_ip:
            found[event["object"].metadata.name] = address
        if len(found) == PODS:
            return list(found.values())
    raise TimeoutError(f"Only {len(found)} of {PODS} pods have an address after {PATIENCE_SECONDS} s.")


def _warm_at(address: str) -> tuple[str, float]:
    """Return the address, and the time at which its report first has phase Serving. Use a long poll."""
    sequence = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        report = _report(address, sequence)
        if report and report.phase is Phase.SERVING:
            return address, time.monotonic()
        sequence = report.sequence if report else 0
    raise TimeoutError(f"The pod at {address} is not warm after {PATIENCE_SECONDS} s.")


def _report(address: str, after: int) -> WarmupReport | None:
    url = f"http://{address}:8001{WARMUP_PATH}?after={after}&wait=20"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return WarmupReport.model_validate_json(answer.read())
    except OSError:
        return None  # its container is still starting


if __name__ == "__main__":
    sys.exit(main())
