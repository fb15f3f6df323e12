"""The parts of --speculative-config that the plan depends on. Pure.

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
    """The speculative decoding method, as vLLM names it, and its most draft tokens; None if that is no number."""

    method: str
    tokens: int | None


def speculation(settings: Mapping[str, object]) -> Speculation | None:
    """Read speculative decoding from the settings; None without it, or if its setting is not a JSON object."""
    try:
        asked = json.loads(str(settings[SETTING]))
    except (KeyError, ValueError):
        return None
    if not isinstance(asked, dict):
        return None
    # Without a method, vLLM infers the method from the model; "ngram" is not a model.
    method = asked.get("method") or (NGRAM if asked.get("model") in (NGRAM, f"[{NGRAM}]") else OF_A_MODEL)
    tokens = asked.get("num_speculative_tokens")
    return Speculation(str(method), tokens if type(tokens) is int else None)


def why_refused(method: str) -> str:
    """Return why --speculative-config must not name a method other than ngram, as the end of a sentence."""
    # vLLM has an mtp method for every family, and treats all of them as mtp.
    if method in _RUN_BY_THE_PLUGIN or method.endswith("_mtp"):
        return (
            "vllm-gaudi 0.26 compiles nothing of a draft model and checks none of its shapes, so it could be neither "
            "captured nor counted"
        )
    return "vllm-gaudi 0.26 does not draft by it"
