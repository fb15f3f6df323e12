"""The checks of the doctor. Each check judges facts of the image or the machine and returns a row.

The checks have no side effects. See docs/reference/doctor.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_runtime.catalog.release_pairs import PAIRS, RELEASES, Pair, series
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.facts import Facts, ImageFacts, MachineFacts
from gaudi_runtime.engines.vllm.versions import ANY_RELEASE, Installed
from gaudi_runtime.units import size

EVERY_ENGINE = frozenset(EngineName)
MODEL_ENGINES = frozenset({EngineName.TORCH, EngineName.VLLM})
"""The engines that run a real model; the simulation has almost no requirements."""
VLLM = frozenset({EngineName.VLLM})

# The three processes of vLLM 0.32 used 1.8 GiB with a model of 2 MB. A larger model needs more memory.
VLLM_MEMORY = 2 * 1024**3
# vLLM 0.30 does not start a worker if less shared memory is free.
VLLM_SHARED_MEMORY = 240 * 1024**2
HUGE_PAGE = 2 * 1024**2
_ANOTHER_IMAGE = "Use the image runtime or runtime-hpu, or build an image from their Dockerfile."


class State(StrEnum):
    """The result of a check of the doctor; FAIL means that an engine cannot run."""

    OK = "ok"
    WARNING = "warning"
    FAIL = "fail"


@dataclass(frozen=True)
class Row:
    """A row of the doctor: a topic, the findings and advice. A failure affects only the engines in `needed_by`."""

    topic: str
    state: State
    found: str
    advice: str = ""
    needed_by: frozenset[EngineName] = EVERY_ENGINE


def judge(facts: Facts, engines: frozenset[EngineName]) -> list[Row]:
    """Judge all facts of the doctor and return its rows. Rows about the image come first.

    A failure that affects only engines outside `engines` becomes a warning.
    """
    rows = [check(facts.image) for check in IMAGE_CHECKS]
    if facts.machine:
        rows += [check(facts.machine, facts.image) for check in MACHINE_CHECKS]
    return [_lower_if_irrelevant(row, engines) for row in rows]


def is_healthy(rows: Iterable[Row]) -> bool:
    """Return whether no row of the doctor failed."""
    return all(row.state is not State.FAIL for row in rows)


def installed_engines(image: ImageFacts) -> frozenset[EngineName]:
    """Return the engines that the doctor checks by default: the simulation, and engines with installed packages."""
    found = {EngineName.SIM: "always", EngineName.TORCH: image.torch.version, EngineName.VLLM: image.vllm.version}
    return frozenset(name for name, version in found.items() if version)


def _lower_if_irrelevant(row: Row, engines: frozenset[EngineName]) -> Row:
    is_irrelevant = row.state is State.FAIL and not row.needed_by & engines
    return replace(row, state=State.WARNING) if is_irrelevant else row


def check_torch(image: ImageFacts) -> Row:
    """Check that torch is installed and can be imported."""
    found = image.torch
    if not found.version:
        return Row("torch", State.FAIL, "not installed", _ANOTHER_IMAGE, MODEL_ENGINES)
    if found.error:
        return Row("torch", State.FAIL, f"{found.version}, import fails: {found.error}", _ANOTHER_IMAGE, MODEL_ENGINES)
    return Row("torch", State.OK, found.version)


def check_compiler(image: ImageFacts) -> Row:
    """Check that the C++ compiler and the headers that Inductor needs are installed."""
    # A missing compiler is only a warning on a card, because the bridge has its own compiler.
    missing = "no g++" if not image.compiler else "" if image.python_headers else f"{image.compiler}, no Python.h"
    if not missing:
        return Row("compiler", State.OK, image.compiler)
    advice = "Install g++ and Python's headers (Debian: g++ python3-dev), or set spec.engine.executionMode: Eager."
    state = State.WARNING if image.bridge else State.FAIL
    return Row("compiler", state, missing, advice, VLLM)


def check_vllm(image: ImageFacts) -> Row:
    """Check that supported releases of vLLM and its plugin are installed and that the kernels can be imported."""
    found = image.vllm
    installed = _installed(image)
    refused = installed.why_refused()
    if refused and not (installed.whole and image.any_vllm):
        return Row("vllm", State.FAIL, found.version or "not installed", refused, VLLM)
    if found.error:
        return Row("vllm", State.FAIL, f"{found.version}, import fails: {found.error}", _ANOTHER_IMAGE, VLLM)
    if refused:
        advice = f"This runtime supports {installed.driven}."
        return Row("vllm", State.WARNING, f"{found.version}, allowed by {ANY_RELEASE}", advice)
    pair = installed.pair
    return Row("vllm", State.OK, pair.description if pair else f"{found.version}, supported")


def _installed(image: ImageFacts) -> Installed:
    return Installed(image.vllm.version, image.plugin, cards=bool(image.bridge))


def check_bridge(image: ImageFacts) -> Row:
    """Check that Intel's Gaudi software, PyTorch and vLLM's plugin belong to the same release."""
    found = f"habana-torch-plugin {image.bridge or 'missing'}, vllm-gaudi {image.plugin or 'missing'}"
    if bool(image.bridge) != bool(image.plugin):
        advice = f"Build on Intel's image with PyTorch and vLLM for Gaudi: {RELEASES}. The default is {PAIRS[0].image}."
        return Row("gaudi software", State.FAIL, found, advice, VLLM)
    if not image.bridge:
        return Row("gaudi software", State.OK, "none, because this image is for CPUs")
    pair = _installed(image).pair
    if pair is None or _is_built_on(pair, image):
        return Row("gaudi software", State.OK, found)
    # A mismatch is only a warning, because Intel does not document the version numbers of its builds.
    advice = (
        f"vllm-gaudi {pair.plugin} is made for Gaudi software {pair.gaudi_software} and PyTorch {pair.torch}. Build "
        f"on {pair.image}."
    )
    return Row("gaudi software", State.WARNING, f"{found}, torch {image.torch.version}", advice)


def _is_built_on(pair: Pair, image: ImageFacts) -> bool:
    """Return whether the bridge and torch match the pair. Build and patch numbers are ignored."""
    # The bridge's version is the software version followed by a build number, for example 1.24.1.17.
    software = image.bridge.split(".")[:3] == pair.gaudi_software.split(".")
    return software and series(image.torch.version) in ("", series(pair.torch))


def check_folders(image: ImageFacts) -> Row:
    """Check that this user can write to the folders for compiled code, models and sockets."""
    # In a pod the root file system is read-only, so each of these folders needs a writable volume.
    if not image.read_only:
        return Row("writable folders", State.OK, "caches, home and temporary files")
    advice = "Mount a volume that this user can write to at each folder, or set the variable to another folder."
    return Row("writable folders", State.FAIL, f"read-only: {', '.join(image.read_only)}", advice, MODEL_ENGINES)


def check_device(machine: MachineFacts, image: ImageFacts) -> Row:
    """Check that there is a Gaudi card if the image is an image for cards."""
    cards = machine.cards
    if image.bridge and not cards:
        advice = "Request cards (spec.accelerator), and check that the node's driver and device plugin run."
        return Row("device", State.FAIL, "no Gaudi card, but this image is for cards", advice, MODEL_ENGINES)
    if not cards:
        return Row("device", State.OK, "CPU")
    return Row("device", State.OK, f"{len(cards)} x HPU ({', '.join(sorted(set(cards)))})")


def check_processor(machine: MachineFacts, image: ImageFacts) -> Row:
    """Check that vLLM has fast kernels for this processor."""
    # vLLM's kernels for x86 need AVX2. They are much faster with AVX-512.
    known = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in machine.instructions]
    found = ", ".join(known) or "no known vector instructions"
    if image.bridge or not machine.instructions or "avx512f" in known:
        return Row("processor", State.OK, found)
    if "avx2" in known:
        return Row("processor", State.WARNING, found, "This processor has no AVX-512, so vLLM is much slower.")
    return Row("processor", State.FAIL, found, "vLLM needs a processor with AVX2. Use another processor.", VLLM)


def check_cores(machine: MachineFacts, _: ImageFacts) -> Row:
    """Check how many processor cores this process may use."""
    # vLLM reserves one core for its own work and computes on the other cores.
    if machine.cores >= 2:
        return Row("cores", State.OK, str(machine.cores))
    advice = "vLLM's processes wait for each other on one core. Raise spec.pod.resources.limits.cpu to at least 2."
    return Row("cores", State.WARNING, str(machine.cores), advice)


def check_memory(machine: MachineFacts, _: ImageFacts) -> Row:
    """Check how much memory this process may use before it is killed."""
    if machine.memory >= VLLM_MEMORY:
        return Row("memory", State.OK, size(machine.memory))
    advice = f"vLLM's processes take {size(VLLM_MEMORY)} without the model. Raise spec.pod.resources.limits.memory."
    return Row("memory", State.FAIL, size(machine.memory), advice, VLLM)


def check_shared_memory(machine: MachineFacts, _: ImageFacts) -> Row:
    """Check the size of the shared memory that vLLM's processes use for communication."""
    if machine.shared_memory >= VLLM_SHARED_MEMORY:
        return Row("shared memory", State.OK, size(machine.shared_memory))
    advice = (
        f"vLLM needs at least {size(VLLM_SHARED_MEMORY)} of shared memory. Raise spec.pod.sharedMemorySize, "
        "or run the container with --shm-size=1g."
    )
    return Row("shared memory", State.FAIL, size(machine.shared_memory), advice, VLLM)


def check_huge_pages(machine: MachineFacts, image: ImageFacts) -> Row:
    """Check how many huge pages of 2 MiB are free."""
    # Intel's collective communication library pins its buffers in huge pages.
    found = f"{size(machine.free_huge_pages * HUGE_PAGE)} free"
    if not image.bridge:
        return Row("huge pages", State.OK, f"{found}, not needed on a CPU")
    if machine.free_huge_pages:
        return Row("huge pages", State.OK, found)
    advice = (
        "Replicas with several cards need huge pages. Set spec.accelerator.hugepages, and vm.nr_hugepages on the node."
    )
    return Row("huge pages", State.WARNING, found, advice)


def check_locked_memory(machine: MachineFacts, image: ImageFacts) -> Row:
    """Check how much memory this process may lock."""
    # The driver locks host memory for transfers between the host and the card.
    limit = machine.locked_memory
    found = "unlimited" if limit is None else size(limit)
    if not image.bridge:
        return Row("locked memory", State.OK, f"{found}, not needed on a CPU")
    if limit is None:
        return Row("locked memory", State.OK, found)
    return Row(
        "locked memory",
        State.WARNING,
        found,
        "Set the memlock limit of containers to unlimited in the container runtime of the node.",
    )


def check_inc(image: ImageFacts) -> Row:
    """Check whether Intel Neural Compressor, which quantizes models with measured scales, is installed."""
    if image.inc or not image.bridge:
        return Row("neural compressor", State.OK, image.inc or "none, not needed on a CPU")
    advice = "Models with quantization.method: inc cannot start. Use Intel's image, which has neural-compressor-pt."
    return Row("neural compressor", State.WARNING, "not installed", advice)


def check_git(image: ImageFacts) -> Row:
    """Check whether git is installed, because vLLM's plugin runs git during its start."""
    if image.git or not image.bridge:
        return Row("git", State.OK, image.git or "none, not needed on a CPU")
    advice = "vLLM's plugin runs git to read its revision. This runtime works without git, but other programs may not."
    return Row("git", State.WARNING, "not installed", advice)


def check_driver(machine: MachineFacts, image: ImageFacts) -> Row:
    """Check that the kernel driver and the image belong to the same release of the Gaudi software."""
    found = machine.gaudi.driver
    if not image.bridge:
        return Row("driver", State.OK, found or "none, not needed on a CPU")
    if not found:
        return Row(
            "driver",
            State.WARNING,
            "not known",
            "Load the kernel module habanalabs, or check the driver with hl-smi on the node.",
        )
    release = _numbers(found)
    allowed = [each for each in PAIRS if _numbers(each.gaudi_software) == release]
    if allowed and _numbers(image.bridge) == release:
        return Row(
            "driver", State.OK, f"{found}, which vLLM {allowed[0].vllm} with vllm-gaudi {allowed[0].plugin} requires"
        )
    if allowed:
        here = f"this image has Gaudi software {image.bridge}"
        return Row("driver", State.WARNING, f"{found}, but {here}", f"Use {allowed[0].image} with this driver.")
    wanted = " or ".join(each.gaudi_software for each in PAIRS)
    return Row(
        "driver",
        State.WARNING,
        found,
        f"The supported releases need driver {wanted}. Install such a driver on the node.",
    )


def check_firmware(machine: MachineFacts, image: ImageFacts) -> Row:
    """Report the firmware of the cards. The check never fails, because no public rule defines the right firmware."""
    found = machine.gaudi.firmware
    if len(found) > 1:
        advice = "The cards of this node have different firmware. Install the same firmware on all cards."
        return Row("firmware", State.WARNING, "; ".join(found), advice)
    return Row("firmware", State.OK, "; ".join(found) or ("not known" if image.bridge else "none, no cards"))


def check_ports(machine: MachineFacts, _: ImageFacts) -> Row:
    """Check that the network ports between the cards are up."""
    cards = [each for each in machine.gaudi.cards if each.ports]
    total, down = sum(len(each.ports) for each in cards), [each for each in cards if each.down]
    if not down:
        found = f"{total} of {total} up" if cards else "not known"
        return Row("ports between cards", State.OK, found)
    found = "; ".join(f"{each.address}: {', '.join(map(str, each.down))} down" for each in down)
    advice = "Replicas with several cards hang in their first collective operation. Bring the ports up on the node."
    return Row("ports between cards", State.WARNING, found, advice)


def _numbers(release: str) -> tuple[str, ...]:
    """Return the first three numbers of a Gaudi release: 1, 24, 1 for 1.24.1-1234abc and for 1.24.1.563."""
    return tuple(re.findall(r"\d+", release)[:3])


IMAGE_CHECKS = (check_torch, check_compiler, check_vllm, check_bridge, check_inc, check_git, check_folders)
MACHINE_CHECKS = (
    check_device,
    check_driver,
    check_firmware,
    check_ports,
    check_processor,
    check_cores,
    check_memory,
    check_shared_memory,
    check_huge_pages,
    check_locked_memory,
)
