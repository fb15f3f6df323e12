"""Pods that end again and again are made ever more seldom, and a warm-up that stands still is found out in time."""

from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.report import Phase
from tests.builders import gaudi_inference
from tests.cluster.pods import ready, running, stalled
from tests.fake_runtime import FakeRuntime
from tests.kube_api import KubeApi, Object, until
from tests.kubelet import Kubelet
from tests.operator_process import OperatorProcess


async def test_pods_that_their_node_refuses_at_once_are_no_hot_loop_and_serve_when_it_takes_them_again(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start, kubelet.refuses = FakeRuntime.warm, lambda _: True
    await api.create(gaudi_inference("tiny", replicas=2))
    two = await until(partial(row_after, api, 2), "the second try to have failed")
    made = len(await api.list("Pod", NAME_LABEL))
    three = await until(partial(row_after, api, 3), "the third try to have failed", seconds=60)
    now = len(await api.list("Pod", NAME_LABEL))
    assert now - made <= 8, f"{now - made}: a try is two pods, and those made at once in their stead"
    assert three["backOff"]["since"] >= two["backOff"]["until"]
    condition = await until(partial(stalled, api), "the resource to be Stalled")
    assert condition["reason"] == "PodsFail"
    assert "UnexpectedAdmissionError: Allocate failed." in condition["message"]
    assert f"no new pod is made before {three['backOff']['until']}." in condition["message"]
    kubelet.refuses = lambda _: False
    await until(partial(ready, api), "the next try to serve", seconds=60)
    (row,) = (await api.get("GaudiInference", "tiny"))["status"]["revisions"]
    assert "backOff" not in row
    assert row["lastError"]["message"] == "UnexpectedAdmissionError: Allocate failed."


async def test_standstill_is_seen_when_it_is_due_and_not_when_the_runtime_next_answers(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = lambda runtime: runtime.tell(phase=Phase.COMPILING)
    await api.create(gaudi_inference("tiny", readiness={"stallTimeoutSeconds": 3}))
    runtime = kubelet.runtime(await running(api, kubelet))
    # It grows older without news: a runtime that holds a long-poll of 30 s says nothing of it before.
    runtime.report = runtime.report.model_copy(update={"since_progress_seconds": 4.0})
    condition = await until(partial(stalled, api), "the standstill to be seen", seconds=15)
    assert condition["reason"] == "WarmupStalled"


async def row_after(api: KubeApi, failures: int) -> Object | None:
    """The row of the only revision, after so many tries."""
    status: Object = (await api.get("GaudiInference", "tiny")).get("status") or {}
    rows = [row for row in status.get("revisions", ()) if row.get("backOff", {}).get("failures", 0) >= failures]
    return rows[0] if rows else None
