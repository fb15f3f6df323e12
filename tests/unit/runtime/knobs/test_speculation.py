"""Reading --speculative-config for the plan."""

import pytest

from gaudi_runtime.knobs.speculation import OF_A_MODEL, Speculation, read_speculation, why_method_refused


@pytest.mark.parametrize(
    ("setting", "expected"),
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
def test_method_and_number_of_drafts_are_read(setting: str, expected: Speculation | None) -> None:
    assert read_speculation({"--speculative-config": setting}) == expected


def test_speculation_is_none_without_the_setting() -> None:
    assert read_speculation({}) is None


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "deepseek_mtp", OF_A_MODEL])
def test_method_with_cold_shapes_is_refused(method: str) -> None:
    assert why_method_refused(method).endswith("so these shapes can be neither captured nor counted")


def test_method_unsupported_by_the_plugin_is_refused() -> None:
    assert why_method_refused("suffix") == "vllm-gaudi 0.26 does not support this method"
