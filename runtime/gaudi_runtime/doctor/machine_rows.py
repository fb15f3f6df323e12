"""What a machine must give to a process; each rule makes one row."""

from gaudi_runtime.doctor.facts import ImageFacts, MachineFacts
from gaudi_runtime.doctor.row import MODEL_ENGINES, VLLM, Row, State
from gaudi_runtime.units import size

VLLM_MEMORY = 2 * 1024**3
"""Bytes. The three processes of vLLM 0.32 were seen to have 1.8 GiB with a model of 2 MB: any other needs more."""
VLLM_SHARED_MEMORY = 240 * 1024**2
"""Bytes. vLLM 0.32 does not start a worker with less free."""
HUGE_PAGE = 2 * 1024**2


def device(machine: MachineFacts, image: ImageFacts) -> Row:
    """Cards where the image is made for cards."""
    cards = machine.cards
    if image.bridge and cards.kind != "hpu":
        advice = "Ask for cards (spec.accelerator.cards), and look whether the node's driver and device plugin run."
        return Row("device", State.FAIL, "no Gaudi card, in an image for cards", advice, MODEL_ENGINES)
    if not cards.names:
        return Row("device", State.OK, "CPU")
    return Row("device", State.OK, f"{len(cards.names)} x {cards.kind.upper()} ({', '.join(sorted(set(cards.names)))})")


def processor(machine: MachineFacts, image: ImageFacts) -> Row:
    """vLLM's kernels for x86 need AVX2, and are fast with AVX-512."""
    known = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in machine.instructions]
    found = ", ".join(known) or "no vector instructions known"
    if image.bridge or not machine.instructions or "avx512f" in known:
        return Row("processor", State.OK, found)
    if "avx2" in known:
        return Row("processor", State.WARNING, found, "No AVX-512: expect a fraction of the speed on this processor.")
    return Row("processor", State.FAIL, found, "vLLM has no kernels without AVX2: use another processor.", VLLM)


def cores(machine: MachineFacts, image: ImageFacts) -> Row:
    """vLLM keeps one core for its own work and computes on the others."""
    if machine.cores >= 2:
        return Row("cores", State.OK, str(machine.cores))
    advice = "Give the container two cores or more (spec.pod.resources.cpu): its processes wait for each other on one."
    return Row("cores", State.WARNING, str(machine.cores), advice)


def memory(machine: MachineFacts, image: ImageFacts) -> Row:
    """What this process may use before it is killed."""
    if machine.memory >= VLLM_MEMORY:
        return Row("memory", State.OK, size(machine.memory))
    advice = f"vLLM's processes alone take {size(VLLM_MEMORY)}, without the model: raise spec.pod.resources.memory."
    return Row("memory", State.FAIL, size(machine.memory), advice, VLLM)


def shared_memory(machine: MachineFacts, image: ImageFacts) -> Row:
    """vLLM's processes talk through it."""
    if machine.shared_memory >= VLLM_SHARED_MEMORY:
        return Row("shared memory", State.OK, size(machine.shared_memory))
    advice = (
        f"vLLM starts with {size(VLLM_SHARED_MEMORY)} or more: raise spec.pod.resources.sharedMemory, "
        "or run the container with --shm-size=1g."
    )
    return Row("shared memory", State.FAIL, size(machine.shared_memory), advice, VLLM)


def huge_pages(machine: MachineFacts, image: ImageFacts) -> Row:
    """Intel's collective communication pins its buffers in them."""
    found = f"{size(machine.free_huge_pages * HUGE_PAGE)} free"
    if not image.bridge:
        return Row("huge pages", State.OK, f"{found}, not needed on a CPU")
    if machine.free_huge_pages:
        return Row("huge pages", State.OK, found)
    advice = "With several cards, set vm.nr_hugepages on the node and spec.accelerator.hugepages."
    return Row("huge pages", State.WARNING, found, advice)


def locked_memory(machine: MachineFacts, image: ImageFacts) -> Row:
    """The driver pins memory for transfers between host and card."""
    limit = machine.locked_memory
    found = "unlimited" if limit is None else size(limit)
    if not image.bridge:
        return Row("locked memory", State.OK, f"{found}, no limit needed on a CPU")
    if limit is None:
        return Row("locked memory", State.OK, found)
    return Row(
        "locked memory", State.WARNING, found, "Raise memlock for containers to unlimited in the node's runtime."
    )


RULES = (device, processor, cores, memory, shared_memory, huge_pages, locked_memory)
