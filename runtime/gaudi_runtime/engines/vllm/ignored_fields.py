"""Fields of requests that vLLM's Gaudi plugin does not apply, although vLLM accepts them."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

# vllm-gaudi 0.26 never updates vLLM's logits processors. `bad_words` uses wrong rows and ends the model runner.
IGNORED: Mapping[str, object] = MappingProxyType(
    {
        "min_p": 0,
        "logit_bias": {},
        "min_tokens": 0,
        "bad_words": [],
        "thinking_token_budget": None,
        "logprob_token_ids": [],
    }
)
"""The fields that the plugin does not apply, each with the value that changes nothing."""


def ignored_default_notes(model_config: Any, fields: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each of `fields` that the model's generation_config.json sets for every request."""
    defaults: Mapping[str, Any] = model_config.get_diff_sampling_param()
    for name in defaults.keys() & fields:
        yield (
            f"generation_config.json of the model sets {name} to {defaults[name]}, but vllm-gaudi does not apply "
            f"{name}, so tokens are sampled without it"
        )
