"""Specs that are expensive to plan, next to other models under load. Only the expensive resources are affected.

Random tests found these specs. `make soak` stores the most expensive specs as files.
"""

import json
import lzma
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo import install
from demo.install import ROOT, Installation
from demo.load import Traffic
from demo.reports import ReportRecorder
from demo.resource import Resource, condition, is_ready
from localcluster.sandbox.processes import wait_until
from tests.e2e.reports import wait_answered
from tests.e2e.specs import ONE_BUCKET
from tests.support.builders import gaudi_inference

COSTLIEST = ROOT / "tests" / "data" / "costliest_specs.json.xz"
"""The first spec once ended all operators of a cluster.

Of the others, four are expensive to plan, the rest in processor time and memory of a reconcile.
"""
NEWCOMERS = 3
"""The number of models that are started one after the other while the hostile specs are judged."""


def hostile_resources() -> Iterator[dict[str, Any]]:
    """Yield a resource for each of the expensive specs."""
    for number, spec in enumerate(json.loads(lzma.decompress(COSTLIEST.read_bytes()))):
        # Set the image. Without an image for cards, the operator would refuse the spec before it computes a plan.
        server = {"image": install.RUNTIME_IMAGE}
        yield {**gaudi_inference(f"hostile-{number}"), "spec": {**spec, "server": server}}


@pytest.mark.timeout(900)
def test_costliest_specs_do_not_affect_other_resources(
    installed: Installation, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    apply("steady", bucketing=ONE_BUCKET)
    wait_ready("steady")
    traffic, kubeconfig = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE), str(installed.kubeconfig)
    with ReportRecorder(kubeconfig, namespace, "steady") as reports:
        traffic.start("steady", "steady", pause=0.2)
        wait_answered(reports, 2)
        operators = operator_pods(installed)
        for each in hostile_resources():
            each["metadata"].pop("namespace", None)
            # Use server-side apply. Client-side apply stores the whole spec in an annotation, and these specs are too
            # large for an annotation.
            installed.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(each))
        seconds = [time_to_ready(apply, f"among-{number}") for number in range(NEWCOMERS)]
        wait_until(lambda: "NotJudgedYet" not in verdicts(installed, namespace), "all specs to be judged", 300)
        answers = traffic.stop()
    print(f"{len(answers)} requests; new models Ready in {seconds} s")  # noqa: T201
    print(sorted(verdicts(installed, namespace)))  # noqa: T201
    assert [answer.error for answer in answers if answer.error] == []
    assert reports.cold_requests() == 0
    assert operator_pods(installed) == operators
    assert "NoRuntimeImage" not in verdicts(installed, namespace)


def time_to_ready(apply: Callable[..., Resource], name: str) -> float:
    """Apply a small model, and return the seconds until the model is Ready."""
    began = time.monotonic()
    resource = apply(name, replicas=1, bucketing=ONE_BUCKET)
    next(state for state in resource.states(300) if is_ready(state))
    resource.patch({"replicas": 0})
    return round(time.monotonic() - began, 1)


def operator_pods(installed: Installation) -> dict[str, int]:
    """Return the restart counts of the operator's pods, by name."""
    found = json.loads(installed.kubectl("get", "pods", "-n", install.OPERATOR_NAMESPACE, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["status"]["containerStatuses"][0]["restartCount"] for each in found}


def verdicts(installed: Installation, namespace: str) -> list[str]:
    """Return the reasons of the condition PlanAccepted of the hostile resources."""
    found = json.loads(installed.kubectl("get", "gaudiinferences", "-n", namespace, "-o", "json"))["items"]
    hostile_resources = [each for each in found if each["metadata"]["name"].startswith("hostile-")]
    return [condition(each, "PlanAccepted")["reason"] for each in hostile_resources]
