"""The checks of the doctor. Each check judges facts of the image or the machine and returns a row.

The checks have no side effects. See docs/reference/doctor.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_runtime.catalog.release_pairs import PAIRS, RELEASES, ReleasePair, release_series
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.facts import DoctorFacts, ImageFacts, MachineFacts
from gaudi_runtime.engines.vllm.versions import ANY_RELEASE, InstalledReleases
from gaudi_runtime.units import format_bytes

EVERY_ENGINE = frozenset(EngineName)
VLLM = frozenset({EngineName.VLLM})
"""The engine that runs a model; the simulation has almost no requirements."""

# The three processes of vLLM 0.32 used 1.8 GiB with a model of 2 MB. A larger model needs more memory.
VLLM_MEMORY = 2 * 1024**3
# vLLM 0.30 does not start a worker if less shared memory is free.
VLLM_SHARED_MEMORY = 240 * 1024**2
_ANOTHER_IMAGE = "Use the image runtime or runtime-hpu, or build an image from their Dockerfile."


class DoctorCheckState(StrEnum):
    """The result of a check of the doctor; FAIL means that an engine cannot run."""

    OK = "ok"
    WARNING = "warning"
    FAIL = "fail"


@dataclass(frozen=True)
class DoctorCheckResult:
    """A row of the doctor: a topic, the findings and advice. A failure affects only the engines in `needed_by`."""

    topic: str
    state: DoctorCheckState
    found: str
    advice: str = ""
    needed_by: frozenset[EngineName] = EVERY_ENGINE


def run_doctor_checks(facts: DoctorFacts, engines: frozenset[EngineName]) -> list[DoctorCheckResult]:
    """Judge all facts of the doctor and return its rows. Rows about the image come first.

    A failure that affects only engines outside `engines` becomes a warning.
    """
    rows = [check(facts.image) for check in IMAGE_CHECKS]
    if facts.machine:
        rows += [check(facts.machine, facts.image) for check in MACHINE_CHECKS]
    return [_lower_if_irrelevant(row, engines) for row in rows]


def no_check_failed(rows: Iterable[DoctorCheckResult]) -> bool:
    """Return whether no row of the doctor failed."""
    return all(row.state is not DoctorCheckState.FAIL for row in rows)


def engines_to_check(image: ImageFacts) -> frozenset[EngineName]:
    """Return the engines that the doctor checks by default: the simulation, and engines with installed packages."""
    return EVERY_ENGINE if image.vllm.version else EVERY_ENGINE - VLLM


def _lower_if_irrelevant(row: DoctorCheckResult, engines: frozenset[EngineName]) -> DoctorCheckResult:
    is_irrelevant = row.state is DoctorCheckState.FAIL and not row.needed_by & engines
    return replace(row, state=DoctorCheckState.WARNING) if is_irrelevant else row


def _check_torch(image: ImageFacts) -> DoctorCheckResult:
    """Check that torch is installed and can be imported."""
    package = image.torch
    if not package.version:
        return DoctorCheckResult("torch", DoctorCheckState.FAIL, "not installed", _ANOTHER_IMAGE, VLLM)
    if package.error:
        return DoctorCheckResult(
            "torch", DoctorCheckState.FAIL, f"{package.version}, import fails: {package.error}", _ANOTHER_IMAGE, VLLM
        )
    return DoctorCheckResult("torch", DoctorCheckState.OK, package.version)


def _check_compiler(image: ImageFacts) -> DoctorCheckResult:
    """Check that the C++ compiler and the headers that Inductor needs are installed."""
    # A missing compiler is only a warning on a card, because the bridge has its own compiler.
    problem = "no g++" if not image.compiler else "" if image.python_headers else f"{image.compiler}, no Python.h"
    if not problem:
        return DoctorCheckResult("compiler", DoctorCheckState.OK, image.compiler)
    advice = "Install g++ and Python's headers (Debian: g++ python3-dev), or set spec.engine.executionMode: Eager."
    state = DoctorCheckState.WARNING if image.bridge else DoctorCheckState.FAIL
    return DoctorCheckResult("compiler", state, problem, advice, VLLM)


def _check_vllm(image: ImageFacts) -> DoctorCheckResult:
    """Check that supported releases of vLLM and its plugin are installed and that the kernels can be imported."""
    package = image.vllm
    installed = _installed_releases(image)
    reason = installed.why_refused()
    if reason and not (installed.is_complete and image.any_vllm):
        return DoctorCheckResult("vllm", DoctorCheckState.FAIL, package.version or "not installed", reason, VLLM)
    if package.error:
        return DoctorCheckResult(
            "vllm", DoctorCheckState.FAIL, f"{package.version}, import fails: {package.error}", _ANOTHER_IMAGE, VLLM
        )
    if reason:
        advice = f"This runtime supports {installed.supported_releases}."
        return DoctorCheckResult(
            "vllm", DoctorCheckState.WARNING, f"{package.version}, allowed by {ANY_RELEASE}", advice
        )
    pair = installed.pair
    return DoctorCheckResult("vllm", DoctorCheckState.OK, pair.description if pair else f"{package.version}, supported")


def _installed_releases(image: ImageFacts) -> InstalledReleases:
    return InstalledReleases(image.vllm.version, image.plugin, uses_cards=bool(image.bridge))


def _check_bridge(image: ImageFacts) -> DoctorCheckResult:
    """Check that Intel's Gaudi software, PyTorch and vLLM's plugin belong to the same release."""
    versions = f"habana-torch-plugin {image.bridge or 'missing'}, vllm-gaudi {image.plugin or 'missing'}"
    if bool(image.bridge) != bool(image.plugin):
        advice = f"Build on Intel's image with PyTorch and vLLM for Gaudi: {RELEASES}. The default is {PAIRS[0].image}."
        return DoctorCheckResult("gaudi software", DoctorCheckState.FAIL, versions, advice, VLLM)
    if not image.bridge:
        return DoctorCheckResult("gaudi software", DoctorCheckState.OK, "none, because this image is for CPUs")
    pair = _installed_releases(image).pair
    if pair is None or _matches_pair(pair, image):
        return DoctorCheckResult("gaudi software", DoctorCheckState.OK, versions)
    # A mismatch is only a warning, because Intel does not document the version numbers of its builds.
    advice = (
        f"vllm-gaudi {pair.plugin} is made for Gaudi software {pair.gaudi_software} and PyTorch {pair.torch}. Build "
        f"on {pair.image}."
    )
    return DoctorCheckResult(
        "gaudi software", DoctorCheckState.WARNING, f"{versions}, torch {image.torch.version}", advice
    )


def _matches_pair(pair: ReleasePair, image: ImageFacts) -> bool:
    """Return whether the bridge and torch match the pair. Build and patch numbers are ignored."""
    # The bridge's version is the software version followed by a build number, for example 1.24.1.17.
    same_software = image.bridge.split(".")[:3] == pair.gaudi_software.split(".")
    return same_software and release_series(image.torch.version) in ("", release_series(pair.torch))


def _check_folders(image: ImageFacts) -> DoctorCheckResult:
    """Check that this user can write to the folders for compiled code, models and sockets."""
    # In a pod the root file system is read-only, so each of these folders needs a writable volume.
    if not image.read_only:
        return DoctorCheckResult("writable folders", DoctorCheckState.OK, "caches, home and temporary files")
    advice = "Mount a volume that this user can write to at each folder, or set the variable to another folder."
    return DoctorCheckResult(
        "writable folders", DoctorCheckState.FAIL, f"read-only: {', '.join(image.read_only)}", advice, VLLM
    )


def _check_device(machine: MachineFacts, image: ImageFacts) -> DoctorCheckResult:
    """Check that there is a Gaudi card if the image is an image for cards."""
    cards = machine.cards
    if image.bridge and not cards:
        advice = "Request cards (spec.accelerator), and check that the node's driver and device plugin run."
        return DoctorCheckResult(
            "device", DoctorCheckState.FAIL, "no Gaudi card, but this image is for cards", advice, VLLM
        )
    if not cards:
        return DoctorCheckResult("device", DoctorCheckState.OK, "CPU")
    return DoctorCheckResult("device", DoctorCheckState.OK, f"{len(cards)} x HPU ({', '.join(sorted(set(cards)))})")


def _check_processor(machine: MachineFacts, image: ImageFacts) -> DoctorCheckResult:
    """Check that vLLM has fast kernels for this processor."""
    # vLLM's kernels for x86 need AVX2. They are much faster with AVX-512.
    instructions = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in machine.instructions]
    summary = ", ".join(instructions) or "no known vector instructions"
    if image.bridge or not machine.instructions or "avx512f" in instructions:
        return DoctorCheckResult("processor", DoctorCheckState.OK, summary)
    if "avx2" in instructions:
        return DoctorCheckResult(
            "processor", DoctorCheckState.WARNING, summary, "This processor has no AVX-512, so vLLM is much slower."
        )
    return DoctorCheckResult(
        "processor", DoctorCheckState.FAIL, summary, "vLLM needs a processor with AVX2. Use another processor.", VLLM
    )


def _check_cores(machine: MachineFacts, _: ImageFacts) -> DoctorCheckResult:
    """Check how many processor cores this process may use."""
    # vLLM reserves one core for its own work and computes on the other cores.
    if machine.cores >= 2:
        return DoctorCheckResult("cores", DoctorCheckState.OK, str(machine.cores))
    advice = "vLLM's processes wait for each other on one core. Raise spec.pod.resources.limits.cpu to at least 2."
    return DoctorCheckResult("cores", DoctorCheckState.WARNING, str(machine.cores), advice)


def _check_memory(machine: MachineFacts, _: ImageFacts) -> DoctorCheckResult:
    """Check how much memory this process may use before it is killed."""
    if machine.memory >= VLLM_MEMORY:
        return DoctorCheckResult("memory", DoctorCheckState.OK, format_bytes(machine.memory))
    advice = (
        f"vLLM's processes take {format_bytes(VLLM_MEMORY)} without the model. Raise spec.pod.resources.limits.memory."
    )
    return DoctorCheckResult("memory", DoctorCheckState.FAIL, format_bytes(machine.memory), advice, VLLM)


def _check_shared_memory(machine: MachineFacts, _: ImageFacts) -> DoctorCheckResult:
    """Check the size of the shared memory that vLLM's processes use for communication."""
    if machine.shared_memory >= VLLM_SHARED_MEMORY:
        return DoctorCheckResult("shared memory", DoctorCheckState.OK, format_bytes(machine.shared_memory))
    advice = (
        f"vLLM needs at least {format_bytes(VLLM_SHARED_MEMORY)} of shared memory. Raise spec.pod.sharedMemorySize, "
        "or run the container with --shm-size=1g."
    )
    return DoctorCheckResult("shared memory", DoctorCheckState.FAIL, format_bytes(machine.shared_memory), advice, VLLM)


def _check_locked_memory(machine: MachineFacts, image: ImageFacts) -> DoctorCheckResult:
    """Check how much memory this process may lock."""
    # The driver locks host memory for transfers between the host and the card.
    limit = machine.locked_memory
    summary = "unlimited" if limit is None else format_bytes(limit)
    if not image.bridge:
        return DoctorCheckResult("locked memory", DoctorCheckState.OK, f"{summary}, not needed on a CPU")
    if limit is None:
        return DoctorCheckResult("locked memory", DoctorCheckState.OK, summary)
    return DoctorCheckResult(
        "locked memory",
        DoctorCheckState.WARNING,
        summary,
        "Set the memlock limit of containers to unlimited in the container runtime of the node.",
    )


def _check_driver(machine: MachineFacts, image: ImageFacts) -> DoctorCheckResult:
    """Check that the kernel driver and the image belong to the same release of the Gaudi software."""
    driver = machine.gaudi.driver
    if not image.bridge:
        return DoctorCheckResult("driver", DoctorCheckState.OK, driver or "none, not needed on a CPU")
    if not driver:
        return DoctorCheckResult(
            "driver",
            DoctorCheckState.WARNING,
            "not known",
            "Load the kernel module habanalabs, or check the driver with hl-smi on the node.",
        )
    release = _release_numbers(driver)
    pairs = [pair for pair in PAIRS if _release_numbers(pair.gaudi_software) == release]
    if pairs and _release_numbers(image.bridge) == release:
        return DoctorCheckResult(
            "driver",
            DoctorCheckState.OK,
            f"{driver}, which vLLM {pairs[0].vllm} with vllm-gaudi {pairs[0].plugin} requires",
        )
    if pairs:
        mismatch = f"this image has Gaudi software {image.bridge}"
        return DoctorCheckResult(
            "driver", DoctorCheckState.WARNING, f"{driver}, but {mismatch}", f"Use {pairs[0].image} with this driver."
        )
    supported_releases = " or ".join(pair.gaudi_software for pair in PAIRS)
    return DoctorCheckResult(
        "driver",
        DoctorCheckState.WARNING,
        driver,
        f"The supported releases need driver {supported_releases}. Install such a driver on the node.",
    )


def _check_ports(machine: MachineFacts, _: ImageFacts) -> DoctorCheckResult:
    """Check that the network ports between the cards are up."""
    cards = [card for card in machine.gaudi.cards if card.ports]
    port_count, faulty_cards = sum(len(card.ports) for card in cards), [card for card in cards if card.ports_down]
    if not faulty_cards:
        summary = f"{port_count} of {port_count} up" if cards else "not known"
        return DoctorCheckResult("ports between cards", DoctorCheckState.OK, summary)
    summary = "; ".join(f"{card.address}: {', '.join(map(str, card.ports_down))} down" for card in faulty_cards)
    advice = "Replicas with several cards hang in their first collective operation. Bring the ports up on the node."
    return DoctorCheckResult("ports between cards", DoctorCheckState.WARNING, summary, advice)


def _release_numbers(release: str) -> tuple[str, ...]:
    """Return the first three numbers of a Gaudi release: 1, 24, 1 for 1.24.1-1234abc and for 1.24.1.563."""
    return tuple(re.findall(r"\d+", release)[:3])


IMAGE_CHECKS = (_check_torch, _check_compiler, _check_vllm, _check_bridge, _check_folders)
MACHINE_CHECKS = (
    _check_device,
    _check_driver,
    _check_ports,
    _check_processor,
    _check_cores,
    _check_memory,
    _check_shared_memory,
    _check_locked_memory,
)
