"""Reports that the operator ignores, because they are unreadable, slow, or for another plan."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
from aiohttp import web

from gaudi_runtime.contract.report import MAX_REPORT_BYTES
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import all_running, gate, is_open, pod_message, pod_ready, running
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess


async def _garbage(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>not a report</html>")


async def _oversized(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b" " * (MAX_REPORT_BYTES + 1))


async def _failing(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="oops")


async def _compressed(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})


async def _elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://10.250.250.250:1/")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (_garbage, "cannot be read"),
        (_oversized, "larger than"),
        (_failing, "HTTP 500"),
        (_compressed, "compressed"),
        (_elsewhere, "HTTP 302"),
    ],
)
async def test_unusable_report_is_ignored_with_a_reason(
    api: KubeApi,
    kubelet: Kubelet,
    operator: OperatorProcess,
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
    reason: str,
) -> None:
    def start(runtime: FakeRuntime) -> None:
        runtime.answer = answer
        runtime.warm()

    kubelet.on_start = start
    await api.create(gaudi_inference("tiny"))
    pod = await running(api, kubelet)
    await until(partial(pod_message, api, reason), f"{reason!r} in the status")
    assert not is_open(await api.get("Pod", pod))
    kubelet.runtime(pod).answer = None
    await until(partial(gate, api, pod, "True"), "the gate to open once the report can be read")


async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        for _ in range(1000):
            await response.write(b" ")
            await asyncio.sleep(0.2)
    return response


async def test_slow_report_is_ignored_and_delays_no_other_pod(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    slow: list[FakeRuntime] = []

    def start(runtime: FakeRuntime) -> None:
        runtime.warm()
        if not slow:
            slow.append(runtime)
            runtime.answer = _drip

    kubelet.on_start = start
    async with new_operator(report_wait_seconds=1):
        await api.create(gaudi_inference("tiny", replicas=2))
        names = await until(partial(all_running, api, kubelet, 2), "two pods")
        quick, late = sorted(names, key=lambda name: kubelet.runtime(name) in slow)
        await until(partial(pod_ready, api, quick), "the quick pod to be Ready")
        await until(partial(pod_message, api, "no answer of"), "the reason in the status", seconds=40)
        assert not is_open(await api.get("Pod", late))


async def test_report_of_another_plan_is_ignored_with_a_reason(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    def start(runtime: FakeRuntime) -> None:
        runtime.update(plan_hash="f" * 64)
        runtime.warm()

    kubelet.on_start = start
    await api.create(gaudi_inference("tiny"))
    pod = await running(api, kubelet)
    await until(partial(pod_message, api, "for plan ffffffffff"), "the reason in the status")
    assert not is_open(await api.get("Pod", pod))
