"""A pod whose word changes with every question costs its own resource little, and other resources nothing."""

import itertools
import time
from functools import partial

from aiohttp import web

from gaudi_operator.shell.writing.events import BURST
from gaudi_runtime.contract.report import Phase, RuntimeFailure
from tests.cluster.pods import ready
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

QUESTIONS = 120
"""Six seconds of them, where a pod is asked twenty times a second."""


def waver(runtime: FakeRuntime) -> None:
    """Answer at once, with the other word, and with orders to a terminal."""
    runtime.warm()
    numbers, warm = itertools.count(), runtime.report

    async def answer(_: web.Request) -> web.Response:
        number = next(numbers)
        said: dict[str, object] = {"sequence": warm.sequence + 1 + number}
        if number % 2:
            failure = RuntimeFailure.model_construct(reason="Wavers", message=f"\x1b]52;c;{number}\x07")
            said |= {"phase": Phase.FAILED, "failure": failure}
        body = warm.model_copy(update=said).model_dump_json(by_alias=True)
        return web.Response(text=body, content_type="application/json")

    runtime.answer = answer


async def test_pod_that_wavers_costs_others_nothing(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    hostile: list[FakeRuntime] = []

    def start(runtime: FakeRuntime) -> None:
        waver(runtime)
        hostile.append(runtime)

    kubelet.on_start = start
    await api.create(gaudi_inference("hostile"))
    await until(lambda: asked(hostile, 1), "the hostile pod to be asked")
    before, since = await written(operator), time.monotonic()
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("good"))
    await until(partial(ready, api, "good"), "the other resource to be Ready")
    others = await written(operator)
    await until(lambda: asked(hostile, QUESTIONS), f"{QUESTIONS} questions")
    after, seconds = await written(operator), time.monotonic() - since

    def since_then(what: str) -> float:
        return after[what] - before[what]

    # The other resource has written some of it: how much, does not depend on the seconds.
    assert since_then("pods/status") <= 2 * seconds + 6
    assert since_then("gaudiinferences/status") <= seconds + 12
    assert since_then("events") <= seconds + BURST + 10
    assert others["events"] >= 1
    for each in await api.list("Event"):
        assert each["note"].isprintable()


async def asked(runtimes: list[FakeRuntime], times: int) -> bool:
    """Whether the hostile pod was asked so often."""
    return bool(runtimes) and runtimes[0].polls >= times


async def written(operator: OperatorProcess) -> dict[str, float]:
    """Writes by what was written."""
    samples = await operator.samples("gaudi_operator_api_requests_total")
    found: dict[str, float] = {"pods/status": 0, "gaudiinferences/status": 0, "events": 0}
    for labels, value in samples.items():
        kind = dict(labels)
        if kind["verb"] in ("create", "patch") and kind["resource"] in found:
            found[kind["resource"]] += value
    return found
