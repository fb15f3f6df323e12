"""What the probes find; nothing here is judged yet."""

from dataclasses import dataclass, field

from gaudi_runtime.doctor.gaudi import GaudiFacts


@dataclass(frozen=True)
class Package:
    """A package: its version, empty when it is not installed, and why it cannot be imported, empty when it can."""

    version: str = ""
    error: str = ""


@dataclass(frozen=True)
class ImageFacts:
    """What an image brings. `bridge` and `plugin` are versions of Intel's packages, empty when they are missing.

    `any_vllm` says that the user lets any release of vLLM pass. `read_only` names the folders that cannot be written.
    `compiler` is the first line of what g++ says of itself; `inc` is the version of Intel Neural Compressor; `git` is
    where that program is, empty when it is missing.
    """

    torch: Package
    vllm: Package
    any_vllm: bool
    bridge: str
    plugin: str
    compiler: str
    python_headers: bool
    read_only: tuple[str, ...]
    inc: str = ""
    git: str = ""


@dataclass(frozen=True)
class MachineFacts:
    """What a machine gives this process. Memory is in bytes, huge pages are of 2 MiB, `locked_memory` None is no limit.

    `cards` has the name of each Gaudi card that torch sees. `instructions` are the processor's, by the kernel's
    names; none are known on other architectures than x86.
    """

    cards: tuple[str, ...]
    instructions: frozenset[str]
    cores: int
    memory: int
    shared_memory: int
    free_huge_pages: int
    locked_memory: int | None
    gaudi: GaudiFacts = field(default_factory=GaudiFacts)


@dataclass(frozen=True)
class Facts:
    """Image and machine; no machine where the image alone is asked about."""

    image: ImageFacts
    machine: MachineFacts | None
