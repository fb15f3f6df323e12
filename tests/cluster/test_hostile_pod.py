"""A pod whose report changes with every poll. Its resource is hardly affected, and other resources are not affected."""

import itertools
import time
from functools import partial

from aiohttp import web

from gaudi_operator.shell.writing.event_writer import BURST
from gaudi_runtime.contract.report import Phase, RuntimeFailureReport
from tests.cluster.pods import ready
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

POLLS = 120
"""The number of polls in six seconds, at twenty polls a second."""


def alternate(runtime: FakeRuntime) -> None:
    """Answer each poll immediately. The reports alternate and contain terminal escapes."""
    runtime.warm()
    numbers, warm = itertools.count(), runtime.report

    async def answer(_: web.Request) -> web.Response:
        number = next(numbers)
        changes: dict[str, object] = {"sequence": warm.sequence + 1 + number}
        if number % 2:
            failure = RuntimeFailureReport.model_construct(reason="Alternates", message=f"\x1b]52;c;{number}\x07")
            changes |= {"phase": Phase.FAILED, "failure": failure}
        body = warm.model_copy(update=changes).model_dump_json(by_alias=True)
        return web.Response(text=body, content_type="application/json")

    runtime.answer = answer


async def test_pod_with_alternating_reports_causes_a_bounded_write_rate(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    hostile: list[FakeRuntime] = []

    def start(runtime: FakeRuntime) -> None:
        alternate(runtime)
        hostile.append(runtime)

    kubelet.on_start = start
    await api.create(gaudi_inference("hostile"))
    await until(lambda: polled(hostile, 1), "a poll of the hostile pod")
    before, since = await writes(operator), time.monotonic()
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("good"))
    await until(partial(ready, api, "good"), "the other resource to be Ready")
    writes_so_far = await writes(operator)
    await until(lambda: polled(hostile, POLLS), f"{POLLS} polls")
    after, seconds = await writes(operator), time.monotonic() - since

    def new_writes(kind: str) -> float:
        return after[kind] - before[kind]

    # The constants in these bounds include the writes for the other resource. The number of these writes does not
    # depend on the duration of the test.
    assert new_writes("pods/status") <= 2 * seconds + 6
    assert new_writes("gaudiinferences/status") <= seconds + 12
    assert new_writes("events") <= seconds + BURST + 10
    assert writes_so_far["events"] >= 1
    for each in await api.list("Event"):
        assert each["note"].isprintable()


async def polled(runtimes: list[FakeRuntime], times: int) -> bool:
    """Return whether the hostile pod was polled at least `times` times."""
    return bool(runtimes) and runtimes[0].polls >= times


async def writes(operator: OperatorProcess) -> dict[str, float]:
    """Return the numbers of status and event writes by kind of object."""
    samples = await operator.samples("gaudi_operator_api_requests_total")
    found: dict[str, float] = {"pods/status": 0, "gaudiinferences/status": 0, "events": 0}
    for labels, value in samples.items():
        kind = dict(labels)
        if kind["verb"] in ("create", "patch") and kind["resource"] in found:
            found[kind["resource"]] += value
    return found
