"""What --speculative-config says, as the plan reads it."""

import pytest

from gaudi_runtime.knobs.speculation import OF_A_MODEL, Speculation, speculation, why_refused


@pytest.mark.parametrize(
    ("setting", "asked"),
    [
        ('{"method": "ngram", "num_speculative_tokens": 3}', Speculation("ngram", 3)),
        ('{"model": "[ngram]", "num_speculative_tokens": 3}', Speculation("ngram", 3)),
        ('{"method": "eagle", "model": "/m"}', Speculation("eagle", None)),
        ('{"model": "/m", "num_speculative_tokens": "3"}', Speculation("of a draft model", None)),
        ('{"method": "ngram", "num_speculative_tokens": true}', Speculation("ngram", None)),
        ("[]", None),
        ("{", None),
    ],
)
def test_method_and_number_of_drafts_are_read(setting: str, asked: Speculation | None) -> None:
    assert speculation({"--speculative-config": setting}) == asked


def test_without_the_setting_nothing_is_drafted() -> None:
    assert speculation({}) is None


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "deepseek_mtp", OF_A_MODEL])
def test_method_that_the_plugin_runs_is_refused_for_its_shapes(method: str) -> None:
    assert why_refused(method).endswith("so it could be neither captured nor counted")


def test_method_that_no_plugin_runs_is_refused_for_that() -> None:
    assert why_refused("suffix") == "vllm-gaudi 0.26 does not draft by it"
