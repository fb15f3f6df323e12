"""On a card the released pairs of vLLM and plugin are driven, on a CPU one series; all else hears what is driven."""

import logging
import re
from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.versions import (
    ANY_RELEASE,
    CPU_SERIES,
    PAIRS,
    RELEASES,
    Installed,
    Pair,
    check_release,
    installed,
)
from gaudi_runtime.errors import EngineUnsupported
from tests.unit.runtime.vllm.installed import pretend_installed

ROOT = Path(__file__).parents[4]
NAME_THE_IMAGES = ("Dockerfile", "docs/install.md")
PAIRS_IN_WORDS = "vLLM 0.26.0 with vllm-gaudi 0.26.0 or vLLM 0.30.0 with vllm-gaudi 0.30.0"
USE_A_PAIR = f"and this runtime drives {PAIRS_IN_WORDS} on a card: use an image with one of these pairs"
OR_TRY = "or try yours with GAUDI_RUNTIME_ANY_VLLM=1."
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vllm)


def on_card(vllm: str, plugin: str) -> Installed:
    return Installed(vllm, plugin, cards=True)


def on_cpu(vllm: str) -> Installed:
    return Installed(vllm, "", cards=False)


def refusal(found: Installed) -> str:
    with pytest.raises(EngineUnsupported) as refused:
        check_release(found, {})
    return str(refused.value)


@EVERY_PAIR
def test_a_released_pair_is_driven_on_a_card(pair: Pair) -> None:
    check_release(on_card(pair.vllm, pair.plugin), {})


@pytest.mark.parametrize("built", ["0.26.0+empty", "0.26.0.post1", "0.26.1.dev0+g568afb3a1.d20260803.empty"])
def test_a_build_of_a_release_counts_as_the_release(built: str) -> None:
    check_release(on_card(built, "0.26.0"), {})
    check_release(on_card("0.26.0", built), {})


def test_a_pair_is_found_by_the_metadata_of_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, tmp_path, vllm="0.30.0+empty", vllm_gaudi="0.30.0")
    assert installed(cards=True) == on_card("0.30.0+empty", "0.30.0")
    check_release(installed(cards=True), {})


@pytest.mark.parametrize(
    "release",
    ["0.25.1", "0.26.0rc1", "0.26.0.dev7", "0.26.1", "0.28.0", "0.31.0", "0.32.0", "0.33.0", "1.26.0", "main"],
)
def test_other_releases_are_refused_on_cards_with_pairs_and_switch(release: str) -> None:
    assert refusal(on_card(release, release)) == (
        f"vLLM {release} and vllm-gaudi {release} are installed, {USE_A_PAIR}, {OR_TRY}"
    )


@pytest.mark.parametrize(("vllm", "plugin"), [("0.26.0", "0.30.0"), ("0.30.0", "0.26.0"), ("0.32.0", "0.30.0")])
def test_vllm_and_plugin_of_different_series_are_refused_with_pairs(vllm: str, plugin: str) -> None:
    assert refusal(on_card(vllm, plugin)) == (
        f"vLLM {vllm} and vllm-gaudi {plugin} are installed, which do not belong together, {USE_A_PAIR}, {OR_TRY}"
    )


@pytest.mark.parametrize("vllm", ["0.26.0", "0.32.0"])
def test_on_a_card_a_missing_plugin_is_refused_with_pairs(vllm: str) -> None:
    assert refusal(on_card(vllm, "")) == (
        f"vLLM {vllm} is installed without vllm-gaudi, its plugin for cards, {USE_A_PAIR}."
    )


@pytest.mark.parametrize("release", ["0.32", "0.32.0", "0.32.7", "0.32.1+gaudi.1", "0.32.1.dev5+g0123abc.empty"])
def test_on_a_cpu_patches_and_builds_of_supported_series_pass(release: str) -> None:
    check_release(on_cpu(release), {})


@pytest.mark.parametrize("release", ["0.26.0", "0.31.0", "0.33.0", "0.3.2", "0.320.0", "1.32.0", "nightly"])
def test_other_releases_are_refused_on_cpus_with_series_and_switch(release: str) -> None:
    assert refusal(on_cpu(release)) == (
        f"vLLM {release} is installed, and this runtime drives vLLM {CPU_SERIES} on a CPU: use an image with it, "
        f"{OR_TRY}"
    )


def test_a_missing_vllm_is_refused_with_what_to_install() -> None:
    missing = "vLLM is not installed here"
    assert refusal(on_cpu("")) == (
        f"{missing}, and this runtime drives vLLM {CPU_SERIES} on a CPU: use an image with it."
    )
    assert refusal(on_card("", "0.26.0")) == f"{missing}, {USE_A_PAIR}."


@pytest.mark.parametrize("found", [on_cpu("0.31.0"), on_card("0.28.0", "0.28.0"), on_card("0.30.0", "0.26.0")])
def test_the_switch_lets_other_releases_pass_with_a_warning(found: Installed, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_release(found, {ANY_RELEASE: "1"})
    assert caplog.messages == [f"{found.found}, and this runtime drives {found.driven}: {ANY_RELEASE} is set"]


@pytest.mark.parametrize("found", [on_cpu(""), on_card("", "0.26.0"), on_card("0.26.0", "")])
def test_the_switch_does_not_replace_what_is_missing(found: Installed) -> None:
    with pytest.raises(EngineUnsupported):
        check_release(found, {ANY_RELEASE: "1"})


def test_another_value_of_the_switch_leaves_the_check_on() -> None:
    with pytest.raises(EngineUnsupported):
        check_release(on_cpu("0.31.0"), {ANY_RELEASE: "0"})


def test_the_text_of_the_releases_names_every_pair() -> None:
    assert RELEASES == PAIRS_IN_WORDS


@EVERY_PAIR
def test_an_image_is_named_by_all_that_belongs_together(pair: Pair) -> None:
    """The pattern of Intel's names; the first one was seen in use, with its tag."""
    assert (
        pair.image
        == {
            "0.26.0": "vault.habana.ai/gaudi-docker/1.24.1/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0:latest",
            "0.30.0": "vault.habana.ai/gaudi-docker/1.24.2/ubuntu24.04/habanalabs/vllm-0.30.0-ptupstream-2.13.0:latest",
        }[pair.vllm]
    )


@pytest.mark.parametrize("page", NAME_THE_IMAGES)
def test_the_images_that_are_named_are_those_of_the_pairs(page: str) -> None:
    named = re.findall(r"vault\.habana\.ai/[\w./:-]+", (ROOT / page).read_text())
    assert set(named) == {pair.image for pair in PAIRS}


@EVERY_PAIR
def test_the_table_of_releases_is_that_of_the_page(pair: Pair) -> None:
    row = f"| {pair.vllm} | {pair.plugin} | {pair.gaudi_software} | {pair.torch} |"
    assert row in (ROOT / "docs" / "vllm.md").read_text()
