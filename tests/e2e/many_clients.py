"""Many concurrent clients of a serving model, and the cold batches that the clients cause."""

from typing import Any

from demo.install import Installation
from demo.reports import PERIOD_SECONDS, ReportRecorder
from tests.e2e.forwarding import port_forward
from tests.e2e.reports import wait_serving
from tests.support.concurrent_load import GREEDY, count_tokens, mixed_requests, send_requests

REQUESTS = 500


def cold_batches_of_many_clients(
    installed: Installation,
    namespace: str,
    name: str,
    model: str,
    length: int,
    sampling: tuple[dict[str, Any], ...] = (GREEDY,),
) -> tuple[int, int]:
    """Send 500 requests from 24 concurrent clients. Return the numbers of cold batches and of recompilations.

    A prompt and its answer together have at most `length` tokens. Each kind of `sampling` is sent in turn. Raises
    httpx.HTTPError if a request fails.
    """
    requests = mixed_requests(length, REQUESTS, sampling)
    with (
        ReportRecorder(str(installed.kubeconfig), namespace, name) as reports,
        port_forward(installed, namespace, f"svc/{name}", 80) as port,
    ):
        before = sum(map(count_tokens, wait_serving(reports)))
        send_requests(f"http://127.0.0.1:{port}", model, requests)
        # A pod reports a step up to two seconds after the step. Wait until the reports contain all tokens.
        computed = sum(each.tokens for each in requests)
        while sum(map(count_tokens, reports.last_reports.values())) < before + computed:
            reports.stopped.wait(PERIOD_SECONDS)
    return reports.cold_requests(), reports.recompiles()
