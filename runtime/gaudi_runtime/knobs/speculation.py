"""What --speculative-config asks for, as far as the plan must know it: pure.

See docs/internals/vllm.md, Speculative decoding.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

SETTING = "--speculative-config"
NGRAM = "ngram"


class Speculation(NamedTuple):
    """The method, as vLLM names it, and the most tokens that it drafts; None where that is no whole number."""

    method: str
    tokens: int | None


def speculation(settings: Mapping[str, object]) -> Speculation | None:
    """None without speculative decoding, or where the setting is no JSON object, which its own check says."""
    try:
        asked = json.loads(str(settings[SETTING]))
    except (KeyError, ValueError):
        return None
    if not isinstance(asked, dict):
        return None
    # Without a method vLLM looks at the model: this one is none.
    method = asked.get("method") or (NGRAM if asked.get("model") in (NGRAM, f"[{NGRAM}]") else "of a draft model")
    tokens = asked.get("num_speculative_tokens")
    return Speculation(str(method), tokens if type(tokens) is int else None)
