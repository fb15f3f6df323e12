"""Supported releases: pairs of vLLM and plugin on cards, one release on CPUs. The error lists these releases."""

import logging
from pathlib import Path

import pytest

from gaudi_runtime.catalog.release_pairs import CPU_RELEASE, PAIRS, ReleasePair
from gaudi_runtime.engines.vllm.versions import ANY_RELEASE, InstalledReleases, check_release, read_installed_releases
from gaudi_runtime.errors import EngineUnsupported
from tests.unit.runtime.engines.vllm.installed import pretend_installed

PAIRS_IN_WORDS = (
    "vLLM 0.26.0 with vllm-gaudi 0.26.0 (tested on an emulated card) or "
    "vLLM 0.30.0 with vllm-gaudi 0.30.0 (untested on hardware)"
)
USE_A_PAIR = f"but this runtime supports {PAIRS_IN_WORDS} on a card. Use an image with one of these pairs"
OR_TRY = "or set GAUDI_RUNTIME_ANY_VLLM=1 to try the installed releases."
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vllm)


def installed_on_card(vllm: str, plugin: str) -> InstalledReleases:
    return InstalledReleases(vllm, plugin, uses_cards=True)


def installed_on_cpu(vllm: str) -> InstalledReleases:
    return InstalledReleases(vllm, "", uses_cards=False)


def refusal_of(found: InstalledReleases) -> str:
    with pytest.raises(EngineUnsupported) as refused:
        check_release(found, {})
    return str(refused.value)


@EVERY_PAIR
def test_released_pair_is_supported_on_a_card(pair: ReleasePair) -> None:
    check_release(installed_on_card(pair.vllm, pair.plugin), {})


@pytest.mark.parametrize("built", ["0.26.0+empty", "0.26.0.post1", "0.26.1.dev0+g568afb3a1.d20260803.empty"])
def test_build_of_a_supported_release_is_accepted(built: str) -> None:
    check_release(installed_on_card(built, "0.26.0"), {})
    check_release(installed_on_card("0.26.0", built), {})


def test_pair_is_found_by_its_package_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, tmp_path, vllm="0.30.0+empty", vllm_gaudi="0.30.0")
    assert read_installed_releases(uses_cards=True) == installed_on_card("0.30.0+empty", "0.30.0")
    check_release(read_installed_releases(uses_cards=True), {})


@pytest.mark.parametrize(
    "release",
    ["0.25.1", "0.26.0rc1", "0.26.0.dev7", "0.26.1", "0.28.0", "0.31.0", "0.32.0", "0.33.0", "1.26.0", "main"],
)
def test_refusal_on_cards_names_pairs_and_override(release: str) -> None:
    assert refusal_of(installed_on_card(release, release)) == (
        f"vLLM {release} and vllm-gaudi {release} are installed, {USE_A_PAIR}, {OR_TRY}"
    )


@pytest.mark.parametrize(("vllm", "plugin"), [("0.26.0", "0.30.0"), ("0.30.0", "0.26.0"), ("0.32.0", "0.30.0")])
def test_mismatched_vllm_and_plugin_are_refused_with_pairs(vllm: str, plugin: str) -> None:
    assert refusal_of(installed_on_card(vllm, plugin)) == (
        f"vLLM {vllm} and vllm-gaudi {plugin} are installed (these releases are not built for each other), "
        f"{USE_A_PAIR}, {OR_TRY}"
    )


@pytest.mark.parametrize("vllm", ["0.26.0", "0.32.0"])
def test_missing_plugin_on_a_card_is_refused_with_pairs(vllm: str) -> None:
    assert refusal_of(installed_on_card(vllm, "")) == (
        f"vLLM {vllm} is installed without vllm-gaudi, its plugin for cards, {USE_A_PAIR}."
    )


@pytest.mark.parametrize("built", ["0.30.0", "0.30.0.post1", "0.30.0+gaudi.1", "0.30.1.dev5+g0123abc.empty"])
def test_builds_of_the_newest_paired_release_pass_on_a_cpu(built: str) -> None:
    check_release(installed_on_cpu(built), {})


@pytest.mark.parametrize("release", ["0.26.0", "0.30", "0.30.1", "0.31.0", "0.32.0", "0.3.0", "1.30.0", "nightly"])
def test_refusal_on_cpus_names_release_and_override(release: str) -> None:
    assert refusal_of(installed_on_cpu(release)) == (
        f"vLLM {release} is installed, but this runtime supports vLLM {CPU_RELEASE} on a CPU. Use an image with this "
        f"release, {OR_TRY}"
    )


def test_missing_vllm_is_refused_with_the_package_to_install() -> None:
    missing = "vLLM is not installed here"
    assert refusal_of(installed_on_cpu("")) == (
        f"{missing}, but this runtime supports vLLM {CPU_RELEASE} on a CPU. Use an image with this release."
    )
    assert refusal_of(installed_on_card("", "0.26.0")) == f"{missing}, {USE_A_PAIR}."


@pytest.mark.parametrize(
    "found", [installed_on_cpu("0.31.0"), installed_on_card("0.28.0", "0.28.0"), installed_on_card("0.30.0", "0.26.0")]
)
def test_override_accepts_other_releases_with_a_warning(
    found: InstalledReleases, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        check_release(found, {ANY_RELEASE: "1"})
    assert caplog.messages == [
        f"{found.description}, but this runtime supports {found.supported_releases}. vLLM starts anyway, because "
        f"{ANY_RELEASE} is set"
    ]


@pytest.mark.parametrize(
    "found", [installed_on_cpu(""), installed_on_card("", "0.26.0"), installed_on_card("0.26.0", "")]
)
def test_override_does_not_accept_missing_packages(found: InstalledReleases) -> None:
    with pytest.raises(EngineUnsupported):
        check_release(found, {ANY_RELEASE: "1"})


def test_override_with_the_value_0_keeps_the_check() -> None:
    with pytest.raises(EngineUnsupported):
        check_release(installed_on_cpu("0.31.0"), {ANY_RELEASE: "0"})


def test_report_names_the_pair_and_its_status() -> None:
    assert installed_on_card("0.30.0+empty", "0.30.0").describe_support() == (
        "The card is driven by vLLM 0.30.0 with vllm-gaudi 0.30.0 (untested on hardware): this project has never run "
        "the plugin and relies on its release notes and source text."
    )
    assert installed_on_card("0.26.0", "0.26.0").describe_support() == (
        "The card is driven by vLLM 0.26.0 with vllm-gaudi 0.26.0 (tested on an emulated card): this project's "
        "tests run the plugin's own code on a card that a CPU emulates."
    )


def test_overridden_release_is_reported_as_unsupported() -> None:
    assert installed_on_card("0.28.0", "0.28.0").describe_support() == (
        "vLLM 0.28.0 and vllm-gaudi 0.28.0 are installed. This pair is not supported, but GAUDI_RUNTIME_ANY_VLLM "
        "allows this pair."
    )


def test_report_on_a_cpu_names_no_pair() -> None:
    assert installed_on_cpu("0.30.0").describe_support() is None
