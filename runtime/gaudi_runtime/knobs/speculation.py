"""The parts of --speculative-config that affect the plan. Pure.

See docs/internals/vllm.md, Speculative decoding.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

SETTING = "--speculative-config"
NGRAM = "ngram"
"""The one method whose steps are planned. It drafts on the host, so that no second model has shapes to warm up."""
OF_A_MODEL = "of a draft model"
_RUN_BY_THE_PLUGIN = ("eagle", "eagle3", "mtp", "dflash", "dspark", OF_A_MODEL)


class Speculation(NamedTuple):
    """The speculative decoding method, by vLLM's name, and its maximum of draft tokens; None if it is not a number."""

    method: str
    draft_tokens: int | None


def read_speculation(settings: Mapping[str, object]) -> Speculation | None:
    """Read the speculative decoding settings; None if they are not set or are not a JSON object."""
    try:
        config = json.loads(str(settings[SETTING]))
    except (KeyError, ValueError):
        return None
    if not isinstance(config, dict):
        return None
    # If no method is given, vLLM infers the method from the model name. The name "ngram" stands for a method and not
    # for a model.
    method = config.get("method") or (NGRAM if config.get("model") in (NGRAM, f"[{NGRAM}]") else OF_A_MODEL)
    draft_tokens = config.get("num_speculative_tokens")
    return Speculation(str(method), draft_tokens if type(draft_tokens) is int else None)


def why_method_refused(method: str) -> str:
    """Return why a method other than ngram is rejected in --speculative-config, as the end of a sentence."""
    # vLLM has one mtp method for each model family and treats them all as "mtp".
    if method in _RUN_BY_THE_PLUGIN or method.endswith("_mtp"):
        return (
            "vllm-gaudi 0.26 neither compiles a draft model nor checks the shapes of a draft model, so these shapes "
            "can be neither captured nor counted"
        )
    return "vllm-gaudi 0.26 does not support this method"
