"""Specs made to hurt, beside a model that serves under load and others that start: nobody but their owners feels them.

They are what a soak of specs of any shape found costliest (make soak keeps them as files).
"""

import json
import lzma
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest

from demo import install
from demo.install import ROOT, Installed
from demo.load import Traffic
from demo.reports import ReportRecorder
from demo.resource import Resource, condition, is_ready
from localcluster.processes import wait_until
from tests.e2e.reports import wait_answered
from tests.e2e.specs import ONE_BUCKET
from tests.support.builders import gaudi_inference

COSTLIEST = ROOT / "tests" / "data" / "costliest_specs.json.xz"
"""First the one that once ended all operators of a cluster; of the others four by the work on their plan, the rest by
processor time and memory of a pass.
"""
NEWCOMERS = 3
"""Started one after the other before the hostile ones are there, and again beside them."""


def hostile() -> Iterator[dict[str, Any]]:
    """All of them, as resources."""
    for number, spec in enumerate(json.loads(lzma.decompress(COSTLIEST.read_bytes()))):
        # With an image: where the installation has none for a card, it would be refused before anything is planned.
        server = {"image": install.RUNTIME_IMAGE}
        yield {**gaudi_inference(f"hostile-{number}"), "spec": {**spec, "server": server}}


@pytest.mark.timeout(900)
def test_costliest_specs_harm_nobody_beside_them(
    installed: Installed, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    apply("steady", bucketing=ONE_BUCKET)
    wait_ready("steady")
    traffic, kubeconfig = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE), str(installed.kubeconfig)
    with ReportRecorder(kubeconfig, namespace, "steady") as reports:
        traffic.start("steady", "steady", pause=0.2)
        wait_answered(reports, 2)
        operators = operator_pods(installed)
        quiet = [started(apply, f"quiet-{number}") for number in range(NEWCOMERS)]
        for each in hostile():
            each["metadata"].pop("namespace", None)
            # The annotation that a client-side apply leaves has no room for these.
            installed.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(each))
        beside = [started(apply, f"beside-{number}") for number in range(NEWCOMERS)]
        wait_until(lambda: "NotJudgedYet" not in verdicts(installed, namespace), "all specs to be judged", 300)
        answers = traffic.stop()
    print(f"{len(answers)} requests; newcomers Ready in {quiet} s, beside the hostile in {beside} s")  # noqa: T201
    print(f"medians {median(quiet)} and {median(beside)} s; {sorted(verdicts(installed, namespace))}")  # noqa: T201
    assert [answer.error for answer in answers if answer.error] == []
    assert reports.cold_requests() == 0
    assert operator_pods(installed) == operators
    assert "NoRuntimeImage" not in verdicts(installed, namespace)


def started(apply: Callable[..., Resource], name: str) -> float:
    """Seconds from the apply of a small model until it is Ready."""
    began = time.monotonic()
    resource = apply(name, replicas=1, bucketing=ONE_BUCKET)
    next(state for state in resource.states(300) if is_ready(state))
    resource.patch({"replicas": 0})
    return round(time.monotonic() - began, 1)


def operator_pods(installed: Installed) -> dict[str, int]:
    """The operator's pods with their restarts."""
    found = json.loads(installed.kubectl("get", "pods", "-n", install.OPERATOR_NAMESPACE, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["status"]["containerStatuses"][0]["restartCount"] for each in found}


def verdicts(installed: Installed, namespace: str) -> list[str]:
    """What PlanAccepted says of each hostile resource."""
    found = json.loads(installed.kubectl("get", "gaudiinferences", "-n", namespace, "-o", "json"))["items"]
    hostile = [each for each in found if each["metadata"]["name"].startswith("hostile-")]
    return [condition(each, "PlanAccepted")["reason"] for each in hostile]
