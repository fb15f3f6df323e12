"""Engine vllm on the real node: warm-up, chats and tool calls through the Service, and an upgrade under load."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import yaml

from demo import install
from demo.install import ROOT, Installation
from demo.load import Traffic
from demo.reports import ReportRecorder
from demo.resource import Resource, is_ready
from tests.e2e.forwarding import port_forward
from tests.e2e.gates import GateRecorder
from tests.e2e.many_clients import cold_batches_of_many_clients
from tests.e2e.reports import wait_answered
from tests.e2e.specs import TWO_PROMPT_BUCKETS
from tests.support.concurrent_load import CLIENTS, MIXED_SAMPLING
from tests.support.weather_tool import WEATHER

NAME = "tiny-vllm-cpu"
SECONDS = 600


@pytest.fixture(scope="module")
def resource(installed: Installation, namespace: str) -> Resource:
    """The example with few shapes and a parser for tool calls."""
    manifest = yaml.safe_load((ROOT / "examples" / "tiny-vllm-cpu.yaml").read_text())
    manifest["spec"]["bucketing"] = TWO_PROMPT_BUCKETS
    manifest["spec"]["model"]["maxModelLen"] = 1024  # with random weights the model ends a tool call late
    manifest["spec"]["engine"]["maxNumBatchedTokens"] = 256
    manifest["spec"]["accelerator"]["deviceMemory"] = "1Gi"
    manifest["spec"]["engine"]["settings"] = {
        "--enable-auto-tool-choice": "true",
        "--tool-call-parser": "hermes",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    # Request little CPU. Two pods, a client and the control plane share two cores.
    manifest["spec"]["pod"]["resources"]["requests"]["cpu"] = "250m"
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    return Resource(str(installed.kubeconfig), namespace, NAME)


@pytest.fixture(scope="module")
def states(resource: Resource) -> list[dict[str, Any]]:
    """All states until the resource is Ready, as `kubectl get gi -w` shows them."""
    seen = []
    for state in resource.states(SECONDS):
        seen.append(state)
        if is_ready(state):
            break
    return seen


@pytest.fixture(scope="module")
def client(installed: Installation, namespace: str, states: list[dict[str, Any]]) -> Iterator[openai.OpenAI]:
    """An OpenAI client that is connected to the Service."""
    with (
        port_forward(installed, namespace, f"svc/{NAME}", 80) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def test_resource_becomes_ready_bucket_by_bucket(states: list[dict[str, Any]]) -> None:
    shown = [state.get("status", {}).get("warmup", {}).get("percent", 0) for state in states]
    assert shown == sorted(shown)
    assert len({percent for percent in shown if 0 < percent < 100}) >= 2
    assert states[-1]["status"]["capturedPercent"] == {"prompt": 100, "decode": 100}
    assert states[-1]["status"]["plan"]["basis"] == "Measured"


def test_streamed_chat_equals_the_whole_answer(client: openai.OpenAI) -> None:
    question: Any = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "What is a bucket?"}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = client.chat.completions.create(**question).choices[0].message.content
    pieces = client.chat.completions.create(**question, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == whole


def test_tool_call_is_returned(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "weather?"}],
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=600,
        temperature=0,
    )
    calls: Any = answer.choices[0].message.tool_calls
    assert json.loads(calls[0].function.arguments)["city"] in ("Oslo", "Rome")


def test_many_concurrent_clients_cause_no_cold_batch(
    installed: Installation, namespace: str, states: list[dict[str, Any]]
) -> None:
    assert cold_batches_of_many_clients(installed, namespace, NAME, "tiny", 1024, MIXED_SAMPLING) == (0, 0)


def test_no_request_fails_during_an_upgrade_under_load(
    installed: Installation, namespace: str, resource: Resource, client: openai.OpenAI
) -> None:
    """Upgrade under the load of many clients. The new revision plans the same buckets."""
    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    kubeconfig = str(installed.kubeconfig)
    with ReportRecorder(kubeconfig, namespace, NAME) as reports, GateRecorder(kubeconfig, namespace) as gates:
        traffic.start(NAME, "tiny", workers=CLIENTS, pause=0.2, mixed_sampling=True)
        wait_answered(reports, 1)
        resource.patch({"engine": {"env": [{"name": "LAST_UPGRADE", "value": "now"}]}})
        next(state for state in resource.states(SECONDS) if is_ready(state))
        wait_answered(reports, 2)
        answers = traffic.stop()
    print(f"{len(answers)} requests, {len(reports.last_reports)} instances")  # noqa: T201
    assert [answer.error for answer in answers if answer.error] == []
    assert len({answer.instance for answer in answers}) == 2
    assert [answer for answer in answers if not gates.open_at(answer.instance, answer.at + answer.seconds)] == []
    assert (reports.cold_requests(), reports.recompiles()) == (0, 0)
