"""A GaudiInference for cards on the real node, with the image for cards, vLLM's plugin and an emulated card."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from demo import install
from demo.install import Installation
from demo.load import Traffic
from demo.reports import ReportRecorder
from demo.resource import Resource, is_ready
from tests.e2e.gates import GateRecorder
from tests.e2e.reports import wait_answered, wait_serving
from tests.plugin import image
from tests.plugin.environment import NoSource

NAME = "tiny-card"
SECONDS = 600
SPEC: dict[str, Any] = {
    "model": {
        "source": {"ociImage": {"reference": install.MODEL_IMAGE}},
        "servedNames": ["tiny"],
        "dtype": "bfloat16",
        "maxModelLen": 512,
    },
    "accelerator": {"generation": "gaudi3"},
    "server": {"image": image.TAG},
    "engine": {
        "name": "vllm",
        "executionMode": "HpuGraphs",
        "maxNumSeqs": 2,
        "settings": {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # saves an interpreter
            "--max-cudagraph-capture-size": 256,  # the plugin captures no longer prompts; this halves its graphs
        },
    },
    "bucketing": {
        "strategy": "Linear",
        "prompt": {"query": {"min": 128, "step": 128, "max": 512}},
        "decode": {"batchSize": {"min": 2, "step": 2, "max": 2}, "blocks": {"min": 8, "step": 8, "max": 16}},
    },
    "readiness": {"minCapturedPromptPercent": 50},
    "pod": {"resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "6Gi"}}},
}


@pytest.fixture(scope="module")
def resource(installed: Installation, namespace: str) -> Resource:
    """A resource with one replica and one card."""
    try:
        image.make_available(installed.cluster)
    except NoSource as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    manifest = {
        "apiVersion": "inference.gaudi.dev/v1alpha1",
        "kind": "GaudiInference",
        "metadata": {"name": NAME},
        "spec": SPEC,
    }
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    return Resource(str(installed.kubeconfig), namespace, NAME)


@pytest.fixture(scope="module")
def reports(installed: Installation, namespace: str, resource: Resource) -> Iterator[ReportRecorder]:
    """The reports of every pod, recorded from the first start of the pod."""
    with ReportRecorder(str(installed.kubeconfig), namespace, NAME) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def states(resource: Resource, reports: ReportRecorder) -> list[dict[str, Any]]:
    """All states until the resource is Ready."""
    seen = []
    for state in resource.states(SECONDS):
        seen.append(state)
        if is_ready(state):
            break
    return seen


def test_status_percentages_equal_the_captured_counts(states: list[dict[str, Any]], reports: ReportRecorder) -> None:
    assert states[-1]["status"]["capturedPercent"] == {"prompt": 50, "decode": 100}
    assert states[-1]["status"]["plan"]["basis"] == "Measured"
    (report,) = wait_serving(reports)
    assert (report.prompt.planned, report.prompt.captured) == (4, 2)
    assert report.decode.captured == report.decode.planned
    assert {tuple(each.bucket) for each in report.skipped} == {(1, 384, 0), (1, 512, 0)}


def test_no_gate_opens_before_the_graphs_are_captured(states: list[dict[str, Any]]) -> None:
    pods = [pod for state in states for pod in state.get("status", {}).get("pods", [])]
    assert {pod["phase"] for pod in pods if pod["gate"]} == {"Serving"}
    assert {pod["phase"] for pod in pods if not pod["gate"]} >= {"Loading"}


def test_no_request_fails_during_an_upgrade_under_load(
    installed: Installation, namespace: str, resource: Resource, states: list[dict[str, Any]], reports: ReportRecorder
) -> None:
    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    with GateRecorder(str(installed.kubeconfig), namespace) as gates:
        traffic.start(NAME, "tiny", workers=2, pause=0.2)
        wait_answered(reports, 1)
        resource.patch({"bucketing": {"decode": {"blocks": {"max": 24}}}})
        next(state for state in resource.states(SECONDS) if is_ready(state))
        wait_answered(reports, 2)
        answers = traffic.stop()
    print(f"{len(answers)} requests, {len(reports.last_reports)} instances")  # noqa: T201
    assert [answer.error for answer in answers if answer.error] == []
    assert len({answer.instance for answer in answers}) == 2
    assert [answer for answer in answers if not gates.open_at(answer.instance, answer.at + answer.seconds)] == []
    assert (reports.cold_requests(), reports.recompiles()) == (0, 0)
