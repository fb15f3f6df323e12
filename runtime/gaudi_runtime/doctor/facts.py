"""The facts that the doctor's probes collect, before they are judged."""

from dataclasses import dataclass, field

from gaudi_runtime.doctor.gaudi_facts import GaudiFacts


@dataclass(frozen=True)
class Package:
    """The facts about a Python package: its version and its import error, each empty if there is none."""

    version: str = ""
    error: str = ""


@dataclass(frozen=True)
class ImageFacts:
    """The facts about an image's software. `bridge` and `plugin` are versions of Intel's packages, empty if missing.

    `any_vllm` says that the user allows any release of vLLM. `read_only` names the folders that cannot be written.
    `compiler` is the first line of `g++ --version`; `inc` is the version of Intel Neural Compressor; `git` is the path
    of that program, empty if it is missing.
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
    """The facts about a machine. Memory is in bytes, huge pages have 2 MiB, `locked_memory` is None without a limit.

    `cards` has the name of each Gaudi card that torch detects. `instructions` are those of the processor, by the
    kernel's names; empty on architectures other than x86.
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
    """The facts of the image and of the machine; no machine if only the image is checked."""

    image: ImageFacts
    machine: MachineFacts | None
