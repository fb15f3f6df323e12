"""Bounds on the grammars of requests, and the thread in which vLLM checks them."""

import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.engines.vllm.grammars import (
    MOST_CHARACTERS,
    MOST_LEVELS,
    MOST_NESTED_CHARACTERS,
    check_grammar,
    why_too_large,
)
from gaudi_runtime.engines.vllm.vllm_imports import check_in_thread

SIXTY_FOUR_PATTERNS = {f"k{number}": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"} for number in range(64)}


def nested(levels: int, **fields: Any) -> dict[str, Any]:
    """Return a schema of nested arrays."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels - 1):
        schema = {"type": "array", "items": schema, **fields}
    return schema


def objects(count: int, **fields: Any) -> dict[str, Any]:
    """Return a schema of an object with `count` properties."""
    return {"type": "object", "properties": {f"k{number}": {} for number in range(count)}, **fields}


@pytest.mark.parametrize("source", [nested(64), json.dumps(nested(64)), [nested(63)]])
def test_grammar_of_64_levels_is_accepted(source: Any) -> None:
    assert why_too_large(source) is None


@pytest.mark.parametrize("levels", [65, 700, 5000])
def test_deeper_grammar_is_refused_as_value_and_as_string(levels: int) -> None:
    text = '{"items":' * levels + "0" + "}" * levels
    for source in (text, f'{{"structures":[{text}]}}', *([nested(levels)] if levels < 900 else [])):
        assert why_too_large(source) == f"is nested more than {MOST_LEVELS} levels. Send a flatter one."


def test_size_of_a_grammar_is_bounded_and_lower_if_nested() -> None:
    assert why_too_large("a" * MOST_CHARACTERS) is None
    assert why_too_large("a" * (MOST_CHARACTERS + 1)) == (
        "has 131073 characters in 1 levels. Send at most 131072 characters, and at most 2097152 characters times "
        "levels."
    )
    wide = [nested(62) for _ in range(20)]
    assert why_too_large({"anyOf": wide}) is not None
    assert len(json.dumps(wide)) * MOST_LEVELS > MOST_NESTED_CHARACTERS > len(json.dumps(wide)) * 8
    assert why_too_large({"anyOf": [nested(8) for _ in range(300)]}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[a-z0-9-]{1,128}[a-z0-9-]{0,125}$"},
        {"type": "string", "pattern": r"^([a-z]{1,63}\.){1,5}[a-z]{2,9}$"},
        {"type": "string", "pattern": "a" * 10_000},
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "minItems": 100, "maxItems": 50_000},
        objects(100, minProperties=1, maxProperties=100),
        objects(5000),
        {"properties": SIXTY_FOUR_PATTERNS},
        {"pattern": {"type": "string", "maxItems": "5"}},
        {"description": "Write {10000} or {99999,} of them."},
    ],
)
def test_usual_repeats_are_accepted(schema: Any) -> None:
    assert why_too_large(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"},
        {"type": "string", "pattern": "a{1,100}" * 100},
        {"anyOf": [{"pattern": f"^{number}(abcdefgh){{1,128}}$"} for number in range(100)]},
        {"type": "array", "maxItems": 1_000_000},
        {"type": "array", "minItems": 1e300},
        objects(1000, minProperties=500),
        {"anyOf": [objects(50, maxProperties=50)] * 50},
    ],
)
def test_repeats_of_many_states_are_refused(schema: Any) -> None:
    for source in (schema, json.dumps(schema), {"format": {"json_schema": schema}}):
        assert why_too_large(source) == (
            "needs more than 100000 states for its repeats. Use lower numbers in patterns, maxItems and maxProperties."
        )


@pytest.mark.parametrize("repeat", ["{129}", "{129,}", "{1,129}", "{ 1 , 129 }", "{" + "9" * 5000 + "}"])
@pytest.mark.parametrize("field", ["pattern", "patternProperties"])
def test_repeats_that_xgrammar_cannot_compile_are_refused(field: str, repeat: str) -> None:
    text = f"^[a-z]{repeat}$"
    refusal = why_too_large({"properties": {"name": {field: text if field == "pattern" else {text: {}}}}})
    assert refusal is not None
    assert refusal.startswith("repeats a part of a pattern more than 128 times. Use minLength and maxLength, or ")


@pytest.mark.parametrize("source", ["[a-z]{1,5000}", {"pattern": r"a\{200\}"}, {"pattern": "a{128}"}])
def test_other_repeats_are_accepted(source: Any) -> None:
    assert why_too_large(source) is None


@pytest.mark.parametrize(
    "wrap", [str, lambda text: {"anyOf": [{"pattern": text}]}, lambda text: {"patternProperties": {text: {}}}]
)
def test_groups_of_an_expression_are_bounded(wrap: Any) -> None:
    assert why_too_large(wrap("(" * 2000 + "a" + ")" * 2000)) is None
    refusal = why_too_large(wrap("(" * 2001 + "a" + ")" * 2001))
    assert refusal == "has an expression with more than 2000 groups. Use fewer."


@pytest.mark.parametrize("name", ["json", "regex", "choice", "grammar", "structural_tag", "whitespace_pattern"])
def test_every_source_of_a_grammar_is_checked(name: str) -> None:
    check_grammar(SimpleNamespace(**{name: "a"}))
    with pytest.raises(ValueError, match=r"^The grammar of the request .* has 131076 characters"):
        check_grammar(SimpleNamespace(**{name: ["a" * (MOST_CHARACTERS)]}))


class FakeParams:
    """Sampling parameters that record the threads which check them. `error` is the error of the check."""

    def __init__(self, grammar: object, error: Exception | None = None) -> None:
        self.structured_outputs, self.error = grammar, error
        self.threads: list[str] = []

    def verify(self, *_: object) -> None:
        """Record the thread."""
        self.threads.append(threading.current_thread().name)
        if self.error:
            raise self.error


class FakeEngine:
    """An engine that checks the parameters when it generates, as AsyncLLM does."""

    input_processor = SimpleNamespace(
        model_config=1, speculative_config=2, structured_outputs_config=3, tokenizer=object()
    )

    async def generate(self, prompt: str, sampling_params: FakeParams, request_id: str) -> AsyncIterator[str]:
        """Yield one text."""
        sampling_params.verify(1, 2, 3, self.input_processor.tokenizer)
        yield f"{prompt} {request_id}"


async def generate(params: FakeParams) -> list[str]:
    engine = FakeEngine()
    check_in_thread(engine)
    return [text async for text in engine.generate("a", sampling_params=params, request_id="b")]


async def test_grammar_is_checked_once_and_in_a_thread() -> None:
    params = FakeParams(grammar=object())
    assert await generate(params) == ["a b"]
    assert params.threads == ["grammar-check_0"]


async def test_request_without_grammar_is_checked_by_vllm_as_before() -> None:
    params = FakeParams(grammar=None)
    assert await generate(params) == ["a b"]
    assert params.threads == ["MainThread"]


async def test_refused_grammar_is_not_generated() -> None:
    with pytest.raises(ValueError, match="refused"):
        await generate(FakeParams(object(), ValueError("refused")))
