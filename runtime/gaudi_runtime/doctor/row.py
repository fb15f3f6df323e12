"""One line of what the doctor says."""

from dataclasses import dataclass
from enum import StrEnum

from gaudi_runtime.contract.config import EngineName

EVERY_ENGINE = frozenset(EngineName)
MODEL_ENGINES = frozenset({EngineName.TORCH, EngineName.VLLM})
"""Those that run a real model; the simulation needs next to nothing."""
VLLM = frozenset({EngineName.VLLM})


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
