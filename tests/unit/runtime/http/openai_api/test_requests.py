"""Reading valid requests: sampling parameters, forms of a prompt, and messages."""

import pytest

from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.http.openai_api.requests import CompletionRequest, Message
from tests.unit.runtime.serving import Served


def test_sampling_has_the_requested_parameters() -> None:
    body = CompletionRequest(
        model="echo", prompt="hi", temperature=0.5, top_p=0.25, top_k=7, seed=3, stop=["a", "b"], ignore_eos=True
    )
    assert body.sampling_params(2, 9) == SamplingParams(
        temperature=0.5, top_p=0.25, top_k=7, seed=5, max_tokens=9, stop=("a", "b"), ignore_eos=True
    )


def test_default_sampling_equals_the_openai_defaults() -> None:
    assert CompletionRequest(model="echo", prompt="hi").sampling_params(0, 4) == SamplingParams(max_tokens=4)


def test_top_k_of_minus_one_disables_the_filter() -> None:
    assert CompletionRequest(model="echo", prompt="hi", top_k=-1).sampling_params(0, 4).top_k == 0


def test_stop_may_be_a_single_string() -> None:
    assert CompletionRequest(model="echo", prompt="hi", stop="abc").sampling_params(0, 4).stop == ("abc",)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("ab", ["ab"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2, 3]], [[1], [2, 3]])],
)
def test_prompt_may_be_text_token_ids_or_lists_of_both(prompt: object, prompts: list[object]) -> None:
    assert CompletionRequest.model_validate({"model": "echo", "prompt": prompt}).prompts() == prompts


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ({"role": "assistant"}, {"role": "assistant", "content": ""}),
        ({"role": "developer", "content": "a"}, {"role": "system", "content": "a"}),
        ({"role": "tool", "content": [{"type": "text", "text": "a"}]}, {"role": "tool", "content": "a"}),
    ],
)
def test_messages_are_converted_to_plain_text_for_the_template(
    message: dict[str, object], seen: dict[str, object]
) -> None:
    assert Message.model_validate(message).template_message() == seen


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
async def test_seed_is_accepted(api: Served, path: str) -> None:
    body = {"model": "echo", "prompt": "a", "messages": [{"role": "user", "content": "a"}], "seed": 7, "n": 2}
    assert (await api.http.post(f"/v1/{path}", json=body)).status_code == 200
