"""Guided decoding on the plugin's own code: structured outputs and a named tool, through vLLM's own application."""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from gaudi_runtime.contract.config import RuntimeConfig
from tests.plugin.apart import counted, ranks, with_processes
from tests.plugin.cases import DEFAULT, configured
from tests.plugin.engine import Facts, Run
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
"""Sent together: steps of one to four requests. The last one has no grammar."""


def guided(checkpoint: Path) -> RuntimeConfig:
    config = configured(DEFAULT, checkpoint, pieces=False)
    settings = {
        **config.engine.settings,
        "--enable-auto-tool-choice": "true",
        "--tool-call-parser": "hermes",
        # Or this model, whose weights are random, fills its answers with white space.
        "--structured-outputs-config": json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}),
    }
    return config.model_copy(update={"engine": config.engine.model_copy(update={"settings": settings})})


async def start_and_ask(run: Run) -> Facts:
    await run.start()
    (before,) = await ranks(run)
    async with (
        run.engine.application() as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://runtime", timeout=300) as client,
    ):
        # Alone first, then three at a time and all: what is sampled together has every size.
        answers = [await ask(client, each) for each in ASKED]
        for several in (ASKED[:3], ASKED):
            answers += await asyncio.gather(*(ask(client, each) for each in several))
        (after,) = await ranks(run)
        counts = await counted(run)
    return {
        "before": before,
        "after": after,
        "answers": answers,
        "counted": counts,
        "cold": len(run.engine.counters.cold),
        "recompiles": run.engine.counters.recompiles,
    }


async def ask(client: httpx.AsyncClient, wanted: dict[str, Any]) -> Any:
    messages = [{"role": "user", "content": "weather?"}]
    asked = {"model": "tiny", "messages": messages, "max_tokens": 200, "temperature": 0, **wanted}
    answer = await client.post("/v1/chat/completions", json=asked)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.json()["choices"][0]["message"]


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return with_processes(start_and_ask, guided(checkpoints["llama"]), tmp_path_factory.mktemp("guided"))


def answers(facts: Facts, wanted: dict[str, Any]) -> list[Any]:
    order = (*ASKED, *ASKED[:3], *ASKED)
    return [answer for asked, answer in zip(order, facts["answers"], strict=True) if asked is wanted]


def test_every_answer_with_a_schema_follows_it(facts: Facts) -> None:
    for message in answers(facts, ASKED[0]) + answers(facts, ASKED[2]):
        assert json.loads(message["content"]) in [{"city": c, "days": d} for c in ("Oslo", "Rome") for d in (1, 20)]


def test_every_call_of_a_named_tool_follows_its_parameters(facts: Facts) -> None:
    for message in answers(facts, TOOL):
        (call,) = message["tool_calls"]
        assert json.loads(call["function"]["arguments"]) in [{"city": "Oslo"}, {"city": "Rome"}]


def test_sampler_runs_at_sizes_of_warm_up_alone(facts: Facts) -> None:
    assert facts["after"]["sampled"] == facts["before"]["sampled"]


def test_guided_requests_compile_nothing(facts: Facts) -> None:
    assert facts["after"]["compiles"] == facts["before"]["compiles"]
    assert (facts["cold"], facts["recompiles"]) == (0, 0)


def test_guided_steps_are_counted_as_they_ran(facts: Facts) -> None:
    assert facts["counted"] == facts["after"]["served"]
