"""Refuses requests that sample while drafts are on, because they would end the plugin's model runner.

vllm-gaudi 0.26 compares drafts with the most likely tokens only. A batch with a request that samples fails an assertion
in the process that holds the card, and all its requests fail (docs/internals/vllm.md, Speculative decoding).
"""

from typing import Any

SAMPLES = "temperature above 0"
GRAMMAR = "structured outputs"
LOGPROBS = "logprobs"


def refuse_sampling(engine: Any) -> None:
    """Make `engine`, vLLM's AsyncLLM, raise ValueError for requests that are not greedy; they are answered with 400."""
    generate = engine.generate

    # Not a coroutine, so that the error is raised before a stream begins.
    def generate_greedily(prompt: Any, sampling_params: Any, *rest: Any, **named: Any) -> Any:
        if found := beyond_greedy(sampling_params):
            raise ValueError(
                f"This server drafts tokens (--speculative-config) and does not accept {found}. Leave it out, and set "
                "temperature to 0."
            )
        return generate(prompt, sampling_params, *rest, **named)

    engine.generate = generate_greedily


def beyond_greedy(sampling: Any) -> str | None:
    """Return the parameter of vLLM's `sampling` that a step with drafts does not support; None if there is none."""
    # vLLM treats a temperature below this as 0 (its _SAMPLING_EPS).
    if sampling.temperature > 1e-5:
        return SAMPLES
    if getattr(sampling, "structured_outputs", None) is not None:
        return GRAMMAR
    asked = (getattr(sampling, each, None) for each in ("logprobs", "prompt_logprobs"))
    return LOGPROBS if any(each is not None for each in asked) else None
