"""Requests that would crash the plugin's model runner during speculative decoding."""

from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.engines.vllm.greedy import refuse_sampling

GREEDY: dict[str, Any] = {
    "temperature": 0.0,
    "structured_outputs": None,
    "logprobs": None,
    "prompt_logprobs": None,
}


def guarded() -> Any:
    engine = SimpleNamespace(generate=lambda prompt, sampling, request: f"answer of {request}")
    refuse_sampling(engine)
    return engine


def test_greedy_request_is_answered() -> None:
    assert guarded().generate("hello", SimpleNamespace(**GREEDY), "1") == "answer of 1"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"temperature": 0.7}, "temperature above 0"),
        ({"structured_outputs": object()}, "structured outputs"),
        ({"logprobs": 0}, "logprobs"),
        ({"prompt_logprobs": 2}, "logprobs"),
    ],
)
def test_requests_that_are_not_greedy_are_refused(body: dict[str, Any], found: str) -> None:
    with pytest.raises(ValueError, match=f"does not support {found}. Set temperature to 0"):
        guarded().generate("hello", SimpleNamespace(**{**GREEDY, **body}), "1")
