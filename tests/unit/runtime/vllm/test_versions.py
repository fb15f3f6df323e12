"""The table of releases says which vLLM is driven; every other one is refused with the range in the sentence."""

import logging

import pytest

from gaudi_runtime.engines.vllm.versions import ANY_RELEASE, RELEASES, SUPPORTED, check_release, why_refused
from gaudi_runtime.errors import EngineUnsupported


def test_the_text_of_the_releases_names_each_series_with_its_plugin() -> None:
    assert [f"vLLM {each.series} with vllm-gaudi {each.plugin}" for each in SUPPORTED] == RELEASES.split(" or ")


@pytest.mark.parametrize("release", ["0.32", "0.32.0", "0.32.7", "0.32.1+gaudi.1", "0.32.1.dev5+g0123abc.empty"])
def test_patches_and_builds_of_a_supported_series_pass(release: str) -> None:
    check_release({}, lambda: release)


@pytest.mark.parametrize("release", ["0.31.0", "0.33.0", "0.3.2", "0.320.0", "1.32.0", "nightly"])
def test_any_other_release_is_refused_with_the_range_and_the_switch(release: str) -> None:
    with pytest.raises(EngineUnsupported) as refused:
        check_release({}, lambda: release)
    assert str(refused.value) == (
        f"vLLM {release} is installed, and this runtime drives {RELEASES}: use an image with one of these, "
        "or try yours with GAUDI_RUNTIME_ANY_VLLM=1."
    )


def test_a_missing_vllm_is_refused_with_what_to_install() -> None:
    assert why_refused("") == (
        f"vLLM is not installed here, and this runtime drives {RELEASES}: use an image with one of these."
    )


def test_the_switch_lets_another_release_pass_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_release({ANY_RELEASE: "1"}, lambda: "0.31.0")
    assert "vLLM 0.31.0 is outside of what this runtime drives" in caplog.text


def test_the_switch_does_not_replace_a_missing_vllm() -> None:
    with pytest.raises(EngineUnsupported):
        check_release({ANY_RELEASE: "1"}, lambda: "")


def test_another_value_of_the_switch_leaves_the_check_on() -> None:
    with pytest.raises(EngineUnsupported):
        check_release({ANY_RELEASE: "0"}, lambda: "0.31.0")
