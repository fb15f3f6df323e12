"""Rejects requests that sample while speculative decoding is on, because they would end the plugin's model runner.

vllm-gaudi 0.26 compares drafts only with the most likely tokens. A batch with a sampling request fails an assertion in
the process that uses the card, and all requests of this process fail (docs/internals/vllm.md, Speculative decoding).
"""

from typing import Any

SAMPLES = "temperature above 0"
GRAMMAR = "structured outputs"
LOGPROBS = "logprobs"


def refuse_sampling(engine: Any) -> None:
    """Make vLLM's AsyncLLM raise ValueError for requests that are not greedy. The client receives status 400."""
    generate = engine.generate

    # This is a plain function and not a coroutine, so that it raises the error before a stream begins.
    def generate_greedily(prompt: Any, sampling_params: Any, *args: Any, **kwargs: Any) -> Any:
        if feature := unsupported_parameter(sampling_params):
            raise ValueError(
                f"This server uses speculative decoding (--speculative-config), which does not support {feature}. Set "
                "temperature to 0, and use neither logprobs nor structured outputs."
            )
        return generate(prompt, sampling_params, *args, **kwargs)

    engine.generate = generate_greedily


def unsupported_parameter(sampling: Any) -> str | None:
    """Return the parameter of vLLM's `sampling` that a step with drafts does not support; None if all are supported."""
    # vLLM treats a temperature below 1e-5 as 0 (its constant _SAMPLING_EPS).
    if sampling.temperature > 1e-5:
        return SAMPLES
    if getattr(sampling, "structured_outputs", None) is not None:
        return GRAMMAR
    logprob_counts = (getattr(sampling, name, None) for name in ("logprobs", "prompt_logprobs"))
    return LOGPROBS if any(value is not None for value in logprob_counts) else None
