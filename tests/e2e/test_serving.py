"""One example from `kubectl apply` to a served model that answers usual requests."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from demo.install import Installation
from demo.resource import Resource
from tests.e2e.forwarding import port_forward
from tests.e2e.many_clients import cold_batches_of_many_clients

NAME = "served"


@pytest.fixture(scope="module")
def served(apply: Callable[..., Resource], wait_ready: Callable[[str], None]) -> str:
    """The name of a Ready GaudiInference."""
    apply(NAME)
    wait_ready(NAME)
    return NAME


@pytest.fixture(scope="module")
def client(installed: Installation, namespace: str, served: str) -> Iterator[openai.OpenAI]:
    """An OpenAI client that is connected to the Service."""
    with (
        port_forward(installed, namespace, f"svc/{served}", 80) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


def get(installed: Installation, namespace: str, what: str) -> dict[str, Any]:
    """Return an object as stored by the API server."""
    return dict(json.loads(installed.kubectl("get", "--namespace", namespace, what, "-o", "json")))


def test_status_shows_every_graph_captured(installed: Installation, namespace: str, served: str) -> None:
    status = get(installed, namespace, f"gi/{served}")["status"]
    assert status["capturedPercent"] == {"prompt": 100, "decode": 100}
    assert status["warmup"]["percent"] == 100
    assert status["readyReplicas"] == 2
    assert status["plan"]["basis"] == "Simulated"


def test_get_shows_the_readiness_columns(installed: Installation, namespace: str, served: str) -> None:
    header, row = installed.kubectl("get", "gi", "--namespace", namespace).splitlines()
    shown = dict(zip(header.split(), row.split(), strict=True))
    assert shown["NAME"] == served
    assert (shown["STATUS"], shown["READY"], shown["DESIRED"]) == ("Serving", "2", "2")
    assert (shown["PROMPT%"], shown["DECODE%"], shown["WARMUP"]) == ("100", "100", "100")


def pods_of(installed: Installation, namespace: str, served: str) -> list[dict[str, Any]]:
    """Return the pods of the resource as stored by the API server."""
    selected = ("--namespace", namespace, "-l", f"inference.gaudi.dev/name={served}")
    return list(json.loads(installed.kubectl("get", "pods", *selected, "-o", "json"))["items"])


def test_pods_have_an_open_gate(installed: Installation, namespace: str, served: str) -> None:
    gates = [
        condition["status"]
        for pod in pods_of(installed, namespace, served)
        for condition in pod["status"]["conditions"]
        if condition["type"] == "inference.gaudi.dev/warmed-up"
    ]
    assert gates == ["True", "True"]


def test_chat_returns_an_answer(client: openai.OpenAI, served: str) -> None:
    answer = client.chat.completions.create(
        model=served, messages=[{"role": "user", "content": "What is a bucket?"}], max_tokens=8, temperature=0
    )
    assert answer.usage
    assert 1 <= answer.usage.completion_tokens <= 8
    assert answer.choices[0].finish_reason in ("stop", "length")


def test_stream_equals_the_whole_answer(client: openai.OpenAI, served: str) -> None:
    question: Any = {
        "model": served,
        "messages": [{"role": "user", "content": "What is a graph?"}],
        "max_tokens": 12,
        "temperature": 0,
    }
    whole = client.chat.completions.create(**question).choices[0].message.content
    pieces = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**question, stream=True)]
    assert "".join(pieces) == whole


def test_many_concurrent_clients_cause_no_cold_batch(installed: Installation, namespace: str, served: str) -> None:
    assert cold_batches_of_many_clients(installed, namespace, served, served, length=256) == (0, 0)


def test_explain_describes_the_fields(installed: Installation) -> None:
    text = " ".join(installed.kubectl("explain", "gi.spec.warmup").split())
    assert "graphMemoryPercent" in text
    assert "Share of the usable memory that is reserved for graphs" in text


def test_describe_shows_the_events(installed: Installation, namespace: str, served: str) -> None:
    text = installed.kubectl("describe", f"gi/{served}", "--namespace", namespace)
    assert "prompt buckets executed" in text


def test_scale_up_creates_no_revision(
    installed: Installation, namespace: str, served: str, wait_ready: Callable[[str], None]
) -> None:
    before = get(installed, namespace, f"gi/{served}")["status"]["revision"]["current"]
    installed.kubectl("scale", "--namespace", namespace, f"gi/{served}", "--replicas=3")
    wait_ready(served)
    status = get(installed, namespace, f"gi/{served}")["status"]
    assert (status["readyReplicas"], status["revision"]["current"]) == (3, before)


def test_scale_to_zero_is_ready_with_its_reason(
    installed: Installation, namespace: str, served: str, wait_ready: Callable[[str], None]
) -> None:
    installed.kubectl("scale", "--namespace", namespace, f"gi/{served}", "--replicas=0")
    wait_ready(served)
    conditions = get(installed, namespace, f"gi/{served}")["status"]["conditions"]
    assert {c["type"]: c["reason"] for c in conditions}["Ready"] == "ScaledToZero"
