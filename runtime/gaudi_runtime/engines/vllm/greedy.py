"""Requests that end the plugin's model runner while it drafts are refused, one by one, before they reach it.

vllm-gaudi 0.26 compares drafts with the most likely tokens alone: a batch with a request that samples stops at an
assertion, in the process that holds the card, and all requests with it (docs/internals/vllm.md, Speculative decoding).
"""

from typing import Any

SAMPLES = "temperature above 0"
GRAMMAR = "structured outputs"
LOGPROBS = "logprobs"


def refuse_sampling(engine: Any) -> None:
    """`engine`, vLLM's AsyncLLM, answers such requests with a ValueError, of which its own server makes a 400."""
    generate = engine.generate

    # No coroutine: raised where the server asks, before a stream has begun.
    def generate_greedily(prompt: Any, sampling_params: Any, *rest: Any, **named: Any) -> Any:
        if found := beyond_greedy(sampling_params):
            raise ValueError(
                f"This server drafts tokens (--speculative-config), and then takes no request with {found}: leave it "
                "out, and set temperature to 0."
            )
        return generate(prompt, sampling_params, *rest, **named)

    engine.generate = generate_greedily


def beyond_greedy(sampling: Any) -> str | None:
    """What this request asks for that a step with drafts cannot do, None where nothing; `sampling` is vLLM's."""
    # Below this vLLM itself takes a temperature for 0 (its _SAMPLING_EPS).
    if sampling.temperature > 1e-5:
        return SAMPLES
    if getattr(sampling, "structured_outputs", None) is not None:
        return GRAMMAR
    asked = (getattr(sampling, each, None) for each in ("logprobs", "prompt_logprobs"))
    return LOGPROBS if any(each is not None for each in asked) else None
