"""Guided decoding on the plugin's own code: structured outputs and a named tool, through vLLM's own application."""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from gaudi_runtime.contract.compiles import StepPart
from gaudi_runtime.contract.config import RuntimeConfig
from tests.plugin.cases import DEFAULT, case_config
from tests.plugin.engine import Facts, Run
from tests.plugin.engine_processes import count_batches, rank_facts_by_core, run_with_engine_processes
from tests.support.weather_tool import WEATHER

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "enum": [1, 20]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "stay", "schema": SCHEMA}}}
TOOL = {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "weather"}}}
ASKED: tuple[dict[str, Any], ...] = (FORMAT, TOOL, {**FORMAT}, {})
"""Requests that are sent together, for steps of one to four requests. The last one has no grammar."""


def guided_config(checkpoint: Path) -> RuntimeConfig:
    config = case_config(DEFAULT, checkpoint, pieces=False)
    settings = {
        **config.engine.settings,
        "--enable-auto-tool-choice": "true",
        "--tool-call-parser": "hermes",
        # Forbid white space between the parts of a structured answer. The model has random weights and would otherwise
        # fill its answers with white space.
        "--structured-outputs-config": json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}),
    }
    return config.model_copy(update={"engine": config.engine.model_copy(update={"settings": settings})})


async def start_and_send(run: Run) -> Facts:
    await run.start()
    (before,) = await rank_facts_by_core(run)
    async with (
        run.engine.application() as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://runtime", timeout=300) as client,
    ):
        # Send the requests one by one, then three at a time, then all at the same time. The sampler then runs with
        # every batch size.
        answers = [await send_request(client, each) for each in ASKED]
        for several in (ASKED[:3], ASKED):
            answers += await asyncio.gather(*(send_request(client, each) for each in several))
        (after,) = await rank_facts_by_core(run)
        counts = await count_batches(run)
    return {
        "before": before,
        "after": after,
        "answers": answers,
        "counted": counts,
        "cold": len(run.engine.counters.cold_batches),
        "forward": run.engine.counters.step_recompiles(StepPart.FORWARD),
    }


async def send_request(client: httpx.AsyncClient, wanted: dict[str, Any]) -> Any:
    messages = [{"role": "user", "content": "weather?"}]
    asked = {"model": "tiny", "messages": messages, "max_tokens": 200, "temperature": 0, **wanted}
    answer = await client.post("/v1/chat/completions", json=asked)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.json()["choices"][0]["message"]


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return run_with_engine_processes(
        start_and_send, guided_config(checkpoints["llama"]), tmp_path_factory.mktemp("guided")
    )


def answers_to(facts: Facts, wanted: dict[str, Any]) -> list[Any]:
    order = (*ASKED, *ASKED[:3], *ASKED)
    return [answer for asked, answer in zip(order, facts["answers"], strict=True) if asked is wanted]


def test_answers_follow_their_schema(facts: Facts) -> None:
    for message in answers_to(facts, ASKED[0]) + answers_to(facts, ASKED[2]):
        assert json.loads(message["content"]) in [{"city": c, "days": d} for c in ("Oslo", "Rome") for d in (1, 20)]


def test_calls_of_a_named_tool_follow_its_parameters(facts: Facts) -> None:
    for message in answers_to(facts, TOOL):
        (call,) = message["tool_calls"]
        assert json.loads(call["function"]["arguments"]) in [{"city": "Oslo"}, {"city": "Rome"}]


def test_sampler_runs_only_at_warmed_sizes(facts: Facts) -> None:
    assert facts["after"]["sampled"] == facts["before"]["sampled"]


def test_guided_requests_compile_no_graph_and_no_forward(facts: Facts) -> None:
    assert facts["after"]["compiles"] == facts["before"]["compiles"]
    assert (facts["cold"], facts["forward"]) == (0, 0)


def test_guided_steps_are_counted_under_the_executed_shape(facts: Facts) -> None:
    assert facts["counted"] == facts["after"]["served"]
