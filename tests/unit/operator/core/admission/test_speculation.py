"""Settings of speculative decoding that are refused before a pod starts, with the exact messages."""

import json
from typing import Any

import pytest

from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference

SETTING = "spec.engine.settings --speculative-config"
SPLIT = {"VLLM_CONTIGUOUS_PA": "false"}
UNKNOWN = "vllm-gaudi 0.26 does not support this method"
OF_A_MODEL = (
    "vllm-gaudi 0.26 neither compiles a draft model nor checks the shapes of a draft model, so these shapes can be "
    "neither captured nor counted"
)


def refused(
    config: dict[str, Any], settings: dict[str, str] | None = None, card: bool = True, **engine: Any
) -> Problem | None:
    asked = {"name": "vllm", "settings": {"--speculative-config": json.dumps(config), **(settings or {})}, **engine}
    return first_spec_violation(inference(engine=asked, **({"accelerator": CARD} if card else {})), DEFAULTS)


def ngram(tokens: int) -> dict[str, Any]:
    return {"method": "ngram", "num_speculative_tokens": tokens}


@pytest.mark.parametrize(
    ("method", "why"),
    [("eagle", OF_A_MODEL), ("medusa", UNKNOWN), ("ngram_gpu", UNKNOWN), ("ngrab", UNKNOWN), ("n", UNKNOWN)],
)
def test_other_methods_than_ngram_are_refused(method: str, why: str) -> None:
    assert refused({"method": method, "num_speculative_tokens": 2}, SPLIT, maxNumBatchedTokens=512) == Problem(
        "NotBuilt",
        f"{SETTING}: method {method} is not implemented in this release, because {why}. Use method ngram.",
    )


def test_drafts_without_a_card_are_refused() -> None:
    assert refused(ngram(2), card=False) == Problem(
        "NotBuilt",
        f"{SETTING} is not implemented in this release for spec.accelerator.generation: none. Remove the setting.",
    )


@pytest.mark.parametrize("config", [{"method": "ngram"}, ngram(0), ngram(65)], ids=str)
def test_number_of_drafts_outside_its_bounds_is_refused(config: dict[str, Any]) -> None:
    assert refused(config, SPLIT, maxNumBatchedTokens=1024) == Problem(
        "SettingsWrong", f"{SETTING}: num_speculative_tokens must be a whole number from 1 to 64."
    )


@pytest.mark.parametrize(("tokens", "least"), [(1, 264), (2, 268), (64, 516)])
def test_steps_must_hold_a_prompt_and_all_drafts(tokens: int, least: int) -> None:
    assert refused(ngram(tokens), SPLIT, maxNumBatchedTokens=least) is None
    assert refused(ngram(tokens), SPLIT, maxNumBatchedTokens=least - 1) == Problem(
        "SettingsWrong",
        f"{SETTING}: spec.engine.maxNumBatchedTokens is {least - 1}, but must be at least {least}. A step needs "
        f"room for a prompt of maxModelLen tokens and for {1 + tokens} tokens of each of maxNumSeqs sequences.",
    )


def test_drafts_with_contiguous_attention_are_refused() -> None:
    assert refused({"model": "ngram", "num_speculative_tokens": 2}, maxNumBatchedTokens=268) == Problem(
        "SettingsWrong",
        f"{SETTING}: vLLM's plugin gives wrong answers with contiguous paged attention. Set "
        "VLLM_CONTIGUOUS_PA to false in spec.engine.settings.",
    )
