"""Whether what was found is enough, as a list of rows; pure (docs/reference/doctor.md). Each rule makes one row."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gaudi_runtime.catalog.pairs import PAIRS, RELEASES, Pair, series
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.facts import Facts, ImageFacts, MachineFacts
from gaudi_runtime.engines.vllm.versions import ANY_RELEASE, Installed
from gaudi_runtime.units import size

EVERY_ENGINE = frozenset(EngineName)
MODEL_ENGINES = frozenset({EngineName.TORCH, EngineName.VLLM})
"""Those that run a real model; the simulation needs next to nothing."""
VLLM = frozenset({EngineName.VLLM})

# The three processes of vLLM 0.32 were seen to have 1.8 GiB with a model of 2 MB: any other needs more.
VLLM_MEMORY = 2 * 1024**3
# vLLM 0.30 does not start a worker with less free.
VLLM_SHARED_MEMORY = 240 * 1024**2
HUGE_PAGE = 2 * 1024**2
_ANOTHER_IMAGE = "Use the runtime or the runtime-hpu image, or build yours from their Dockerfile."


class State(StrEnum):
    """How a row ends: fail means that an engine does not run."""

    OK = "ok"
    WARNING = "warning"
    FAIL = "fail"


@dataclass(frozen=True)
class Row:
    """What was found of a topic, and what to do about it; a fail concerns the engines named in `needed_by`."""

    topic: str
    state: State
    found: str
    advice: str = ""
    needed_by: frozenset[EngineName] = EVERY_ENGINE


def judge(facts: Facts, engines: frozenset[EngineName]) -> list[Row]:
    """All rows, the image's first. What only other engines than `engines` need is a warning at most."""
    rows = [rule(facts.image) for rule in IMAGE_RULES]
    if facts.machine:
        rows += [rule(facts.machine, facts.image) for rule in MACHINE_RULES]
    return [_for_engines(row, engines) for row in rows]


def healthy(rows: Iterable[Row]) -> bool:
    """Whether nothing fails."""
    return all(row.state is not State.FAIL for row in rows)


def installed_engines(image: ImageFacts) -> frozenset[EngineName]:
    """The engines whose packages are there; the simulation always is."""
    found = {EngineName.SIM: "always", EngineName.TORCH: image.torch.version, EngineName.VLLM: image.vllm.version}
    return frozenset(name for name, version in found.items() if version)


def _for_engines(row: Row, engines: frozenset[EngineName]) -> Row:
    spared = row.state is State.FAIL and not row.needed_by & engines
    return replace(row, state=State.WARNING) if spared else row


def torch(image: ImageFacts) -> Row:
    """torch is there and can be imported."""
    found = image.torch
    if not found.version:
        return Row("torch", State.FAIL, "not installed", _ANOTHER_IMAGE, MODEL_ENGINES)
    if found.error:
        return Row("torch", State.FAIL, f"{found.version}, import fails: {found.error}", _ANOTHER_IMAGE, MODEL_ENGINES)
    return Row("torch", State.OK, found.version)


def compiler(image: ImageFacts) -> Row:
    """What Inductor needs, which writes C++ and compiles it."""
    # No failure on a card: there the bridge compiles by itself.
    lacking = "no g++" if not image.compiler else "" if image.python_headers else f"{image.compiler}, no Python.h"
    if not lacking:
        return Row("compiler", State.OK, image.compiler)
    advice = "Install g++ and Python's headers (Debian: g++ python3-dev), or run in execution mode eager."
    state = State.WARNING if image.bridge else State.FAIL
    return Row("compiler", state, lacking, advice, VLLM)


def vllm(image: ImageFacts) -> Row:
    """vLLM is there, is of a release that we drive (with its plugin, for cards), and its kernels can be imported."""
    found = image.vllm
    installed = _installed(image)
    refused = installed.why_refused()
    if refused and not (installed.whole and image.any_vllm):
        return Row("vllm", State.FAIL, found.version or "not installed", refused, VLLM)
    if found.error:
        return Row("vllm", State.FAIL, f"{found.version}, import fails: {found.error}", _ANOTHER_IMAGE, VLLM)
    if refused:
        advice = f"This runtime drives {installed.driven}."
        return Row("vllm", State.WARNING, f"{found.version}, let pass by {ANY_RELEASE}", advice)
    pair = installed.pair
    return Row("vllm", State.OK, pair.words if pair else f"{found.version}, supported")


def _installed(image: ImageFacts) -> Installed:
    return Installed(image.vllm.version, image.plugin, cards=bool(image.bridge))


def bridge(image: ImageFacts) -> Row:
    """Intel's Gaudi software, PyTorch and vLLM's plugin belong together."""
    found = f"habana-torch-plugin {image.bridge or 'missing'}, vllm-gaudi {image.plugin or 'missing'}"
    if bool(image.bridge) != bool(image.plugin):
        advice = f"Start from Intel's image with PyTorch and vLLM for Gaudi: {RELEASES}; proven is {PAIRS[0].image}."
        return Row("gaudi software", State.FAIL, found, advice, VLLM)
    if not image.bridge:
        return Row("gaudi software", State.OK, "none: an image for CPUs")
    pair = _installed(image).pair
    if pair is None or _is_built_on(pair, image):
        return Row("gaudi software", State.OK, found)
    # No failure: how Intel's builds number themselves was never seen.
    advice = (
        f"vllm-gaudi {pair.plugin} is made for Gaudi software {pair.gaudi_software} and PyTorch {pair.torch}: start "
        f"from {pair.image}."
    )
    return Row("gaudi software", State.WARNING, f"{found}, torch {image.torch.version}", advice)


def _is_built_on(pair: Pair, image: ImageFacts) -> bool:
    """Whether bridge and torch are those of the pair; builds and patches of torch count as the release."""
    # A bridge is numbered as the software and its build: 1.24.1.17.
    software = image.bridge.split(".")[:3] == pair.gaudi_software.split(".")
    return software and series(image.torch.version) in ("", series(pair.torch))


def folders(image: ImageFacts) -> Row:
    """A place for compiled code, fetched models and sockets."""
    # The root file system is read-only in a pod.
    if not image.read_only:
        return Row("writable folders", State.OK, "caches, home and temporary files")
    advice = "Mount a volume there that this user may write, or name another folder in the variable."
    return Row("writable folders", State.FAIL, f"read-only: {', '.join(image.read_only)}", advice, MODEL_ENGINES)


def device(machine: MachineFacts, image: ImageFacts) -> Row:
    """Cards where the image is made for cards."""
    cards = machine.cards
    if image.bridge and not cards:
        advice = "Ask for cards (spec.accelerator), and look whether the node's driver and device plugin run."
        return Row("device", State.FAIL, "no Gaudi card, in an image for cards", advice, MODEL_ENGINES)
    if not cards:
        return Row("device", State.OK, "CPU")
    return Row("device", State.OK, f"{len(cards)} x HPU ({', '.join(sorted(set(cards)))})")


def processor(machine: MachineFacts, image: ImageFacts) -> Row:
    """Whether vLLM has fast kernels for it."""
    # Its kernels for x86 need AVX2, and are fast with AVX-512.
    known = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in machine.instructions]
    found = ", ".join(known) or "no vector instructions known"
    if image.bridge or not machine.instructions or "avx512f" in known:
        return Row("processor", State.OK, found)
    if "avx2" in known:
        return Row("processor", State.WARNING, found, "No AVX-512: expect a fraction of the speed on this processor.")
    return Row("processor", State.FAIL, found, "vLLM has no kernels without AVX2: use another processor.", VLLM)


def cores(machine: MachineFacts, _: ImageFacts) -> Row:
    """What this process may use of the processor."""
    # vLLM keeps one core for its own work and computes on the others.
    if machine.cores >= 2:
        return Row("cores", State.OK, str(machine.cores))
    advice = "Give the container two cores or more (spec.pod.resources.cpu): its processes wait for each other on one."
    return Row("cores", State.WARNING, str(machine.cores), advice)


def memory(machine: MachineFacts, _: ImageFacts) -> Row:
    """What this process may use before it is killed."""
    if machine.memory >= VLLM_MEMORY:
        return Row("memory", State.OK, size(machine.memory))
    advice = f"vLLM's processes alone take {size(VLLM_MEMORY)}, without the model: raise spec.pod.resources.memory."
    return Row("memory", State.FAIL, size(machine.memory), advice, VLLM)


def shared_memory(machine: MachineFacts, _: ImageFacts) -> Row:
    """What vLLM's processes talk through."""
    if machine.shared_memory >= VLLM_SHARED_MEMORY:
        return Row("shared memory", State.OK, size(machine.shared_memory))
    advice = (
        f"vLLM starts with {size(VLLM_SHARED_MEMORY)} or more: raise spec.pod.resources.sharedMemory, "
        "or run the container with --shm-size=1g."
    )
    return Row("shared memory", State.FAIL, size(machine.shared_memory), advice, VLLM)


def huge_pages(machine: MachineFacts, image: ImageFacts) -> Row:
    """Pages of 2 MiB that are free."""
    # Intel's collective communication pins its buffers in them.
    found = f"{size(machine.free_huge_pages * HUGE_PAGE)} free"
    if not image.bridge:
        return Row("huge pages", State.OK, f"{found}, not needed on a CPU")
    if machine.free_huge_pages:
        return Row("huge pages", State.OK, found)
    advice = "With several cards, set vm.nr_hugepages on the node and spec.accelerator.hugepages."
    return Row("huge pages", State.WARNING, found, advice)


def locked_memory(machine: MachineFacts, image: ImageFacts) -> Row:
    """How much memory this process may pin."""
    # The driver pins memory for transfers between host and card.
    limit = machine.locked_memory
    found = "unlimited" if limit is None else size(limit)
    if not image.bridge:
        return Row("locked memory", State.OK, f"{found}, no limit needed on a CPU")
    if limit is None:
        return Row("locked memory", State.OK, found)
    return Row(
        "locked memory", State.WARNING, found, "Raise memlock for containers to unlimited in the node's runtime."
    )


def inc(image: ImageFacts) -> Row:
    """What quantizes by measured scales."""
    if image.inc or not image.bridge:
        return Row("neural compressor", State.OK, image.inc or "none, of use on cards only")
    advice = "Models with quantization.method inc do not start here: use Intel's image, which has neural-compressor-pt."
    return Row("neural compressor", State.WARNING, "not installed", advice)


def git(image: ImageFacts) -> Row:
    """What vLLM's plugin asks for a revision as it starts."""
    if image.git or not image.bridge:
        return Row("git", State.OK, image.git or "none, not needed on a CPU")
    advice = "vLLM's plugin asks git for its revision as it starts; this runtime answers for it, other programs do not."
    return Row("git", State.WARNING, "not installed", advice)


def driver(machine: MachineFacts, image: ImageFacts) -> Row:
    """The kernel's driver and the image are of one release of the Gaudi software."""
    found = machine.gaudi.driver
    if not image.bridge:
        return Row("driver", State.OK, found or "none, not needed on a CPU")
    if not found:
        return Row(
            "driver", State.WARNING, "not known", "Load the kernel module habanalabs, or ask hl-smi on the node."
        )
    release = _numbers(found)
    allowed = [each for each in PAIRS if _numbers(each.gaudi_software) == release]
    if allowed and _numbers(image.bridge) == release:
        return Row("driver", State.OK, f"{found}, as vLLM {allowed[0].vllm} with vllm-gaudi {allowed[0].plugin} has it")
    if allowed:
        here = f"this image has Gaudi software {image.bridge}"
        return Row("driver", State.WARNING, f"{found}, and {here}", f"This driver allows {allowed[0].image}.")
    wanted = " or ".join(each.gaudi_software for each in PAIRS)
    return Row(
        "driver", State.WARNING, found, f"Our pairs are made for driver {wanted}: install one of them on the node."
    )


def firmware(machine: MachineFacts, image: ImageFacts) -> Row:
    """What runs on the cards themselves; shown, for no rule about it is public."""
    found = machine.gaudi.firmware
    if len(found) > 1:
        advice = "Cards of one node have different firmware: update it on all of them."
        return Row("firmware", State.WARNING, "; ".join(found), advice)
    return Row("firmware", State.OK, "; ".join(found) or ("not known" if image.bridge else "none, no cards"))


def ports(machine: MachineFacts, _: ImageFacts) -> Row:
    """What cards talk to each other through."""
    cards = [each for each in machine.gaudi.cards if each.ports]
    total, down = sum(len(each.ports) for each in cards), [each for each in cards if each.down]
    if not down:
        found = f"{total} of {total} up" if cards else "none known"
        return Row("ports between cards", State.OK, found)
    found = "; ".join(f"{each.address}: {', '.join(map(str, each.down))} down" for each in down)
    advice = "With several cards a replica hangs in its first collective: bring the ports up on the node."
    return Row("ports between cards", State.WARNING, found, advice)


def _numbers(release: str) -> tuple[str, ...]:
    """The release of the Gaudi software: 1.24.1 of 1.24.1-1234abc and of 1.24.1.563."""
    return tuple(re.findall(r"\d+", release)[:3])


IMAGE_RULES = (torch, compiler, vllm, bridge, inc, git, folders)
MACHINE_RULES = (device, driver, firmware, ports, processor, cores, memory, shared_memory, huge_pages, locked_memory)
