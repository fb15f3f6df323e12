"""The facts that the doctor's probes collect and its checks judge."""

from dataclasses import dataclass, field

from gaudi_runtime.doctor.gaudi_facts import GaudiFacts


@dataclass(frozen=True)
class PackageFacts:
    """A Python package: its version (empty if missing) and its import error (empty if the import succeeded)."""

    version: str = ""
    error: str = ""


@dataclass(frozen=True)
class ImageFacts:
    """The software of an image. `bridge` and `plugin` are the versions of Intel's packages, empty if missing.

    `any_vllm` is True if the user allows any release of vLLM. `read_only` names the folders that cannot be written.
    `compiler` is the first line of `g++ --version`.
    """

    torch: PackageFacts
    vllm: PackageFacts
    any_vllm: bool
    bridge: str
    plugin: str
    compiler: str
    python_headers: bool
    read_only: tuple[str, ...]


@dataclass(frozen=True)
class MachineFacts:
    """The hardware and limits of a machine. Memory is in bytes.

    `locked_memory` is None without a limit. `cards` has the name of each Gaudi card that torch detects. `instructions`
    are the processor's instructions by their kernel names; empty on architectures other than x86.
    """

    cards: tuple[str, ...]
    instructions: frozenset[str]
    cores: int
    memory: int
    shared_memory: int
    locked_memory: int | None
    gaudi: GaudiFacts = field(default_factory=GaudiFacts)


@dataclass(frozen=True)
class DoctorFacts:
    """The facts about the image and the machine. `machine` is None if only the image is checked."""

    image: ImageFacts
    machine: MachineFacts | None
