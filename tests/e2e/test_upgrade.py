"""Rolling upgrades under load. No request fails, no graph is cold, and no pod answers before its gate is open."""

import os
from collections.abc import Callable

import pytest

from demo import install
from demo.install import Installation
from demo.load import Traffic
from demo.reports import ReportRecorder
from demo.resource import Resource, is_ready
from tests.e2e.gates import GateRecorder
from tests.e2e.reports import wait_answered
from tests.e2e.specs import ONE_BUCKET

UPGRADES = int(os.environ.get("GAUDI_E2E_UPGRADES", "1"))
SECONDS = 300


@pytest.mark.timeout(300 + 180 * UPGRADES)
def test_no_request_fails_during_upgrades_under_load(
    installed: Installation, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    resource = apply("rolling", bucketing=ONE_BUCKET)
    wait_ready("rolling")
    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    kubeconfig = str(installed.kubeconfig)
    with ReportRecorder(kubeconfig, namespace, "rolling") as reports, GateRecorder(kubeconfig, namespace) as gates:
        traffic.start("rolling", "rolling", pause=0.2)
        wait_answered(reports, 2)
        for number in range(UPGRADES):
            step = 128 if number % 2 == 0 else 256
            resource.patch({"bucketing": {"prompt": {"query": {"min": step, "step": step}}}})
            next(state for state in resource.states(SECONDS) if is_ready(state))
            wait_answered(reports, 2 * (number + 2))
        answers = traffic.stop()
    print(f"{UPGRADES} upgrades, {len(answers)} requests, {len(reports.last_reports)} instances")  # noqa: T201
    assert [answer.error for answer in answers if answer.error] == []
    assert {answer.stream for answer in answers} == {True, False}
    assert len({answer.instance for answer in answers}) >= 2 + UPGRADES
    assert [answer for answer in answers if not gates.open_at(answer.instance, answer.at + answer.seconds)] == []
    assert (reports.cold_requests(), reports.recompiles()) == (0, 0)
