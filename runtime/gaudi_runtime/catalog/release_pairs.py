"""The only table of releases that belong together on a card (docs/internals/vllm.md, Releases).

A Gaudi plugin supports one release of vLLM, one of the Gaudi software and one of PyTorch. The engine, the doctor, the
Dockerfile, the documentation and the forecast use the releases in this table. Tests compare them with the table.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class PairVerification(StrEnum):
    """The kind of test that a pair has passed. No pair was ever run on a real card."""

    EMULATED = "tested on an emulated card"
    UNTESTED = "untested on hardware"


MEANING = {
    PairVerification.EMULATED: "this project's tests run the plugin's own code on a card that a CPU emulates",
    PairVerification.UNTESTED: "this project has never run the plugin and relies on its release notes and source text",
}


@dataclass(frozen=True)
class ReleasePair:
    """A release of vLLM, the matching release of its Gaudi plugin, and the software that both are built on.

    `tiles_queries` is True if the plugin reads VLLM_HPU_FSDPA_Q_TILE_ENABLE. `caches_states` is True if prefix caching
    works for gated delta networks (PR 1827 of the plugin).
    """

    vllm: str
    plugin: str
    gaudi_software: str
    torch: str
    proof: PairVerification
    tiles_queries: bool
    caches_states: bool

    @property
    def image(self) -> str:
        """The name of Intel's container image with these releases."""
        folder = f"vault.habana.ai/gaudi-docker/{self.gaudi_software}/ubuntu24.04/habanalabs"
        return f"{folder}/vllm-{self.vllm}-ptupstream-{self.torch}:latest"

    @property
    def description(self) -> str:
        """Both releases and how the pair was tested."""
        return f"vLLM {self.vllm} with vllm-gaudi {self.plugin} ({self.proof})"


PAIRS = (
    ReleasePair(
        vllm="0.26.0",
        plugin="0.26.0",
        gaudi_software="1.24.1",
        torch="2.11.0",
        proof=PairVerification.EMULATED,
        tiles_queries=False,
        caches_states=False,
    ),
    ReleasePair(
        vllm="0.30.0",
        plugin="0.30.0",
        gaudi_software="1.24.2",
        torch="2.13.0",
        proof=PairVerification.UNTESTED,
        tiles_queries=True,
        caches_states=True,
    ),
)
"""The first one is the default; the last one is the newest."""
RELEASES = " or ".join(pair.description for pair in PAIRS)

CPU_RELEASE = PAIRS[-1].vllm
"""The release on a CPU. Cards have this release too, so that the tests run what cards run."""


def release_series(release: str) -> str:
    """Return the major and minor number of a release, such as 0.26. Return an empty string for other text."""
    # Patch releases and builds from source, such as 0.30.1.dev5+gaudi, belong to the series of their minor release.
    numbers = re.match(r"\d+\.\d+", release)
    return numbers.group() if numbers else ""


def base_release(version: str) -> str:
    """Return the release that a version was built from. Return an empty string for a version such as 0.26.0rc1."""
    match = re.fullmatch(r"(\d+\.\d+)\.(\d+)(?:\.post\d+|\.(dev)\d+)?(?:\+.+)?", version)
    if not match:
        return ""
    numbers, patch, dev_suffix = match.groups()
    # A build from the changed source of 0.26.0 has the version 0.26.1.dev0+g1a2b3c4, so its patch number is one too
    # high.
    return f"{numbers}.{int(patch) - bool(dev_suffix)}"


def find_pair(vllm: str, plugin: str) -> ReleasePair | None:
    """Return the pair of releases that these versions were built from, or None if no pair matches."""
    releases = (base_release(vllm), base_release(plugin))
    return next((pair for pair in PAIRS if (pair.vllm, pair.plugin) == releases), None)
