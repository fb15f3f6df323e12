"""Faults of the warm-up verbs: which step of which phase they strike, and what then happens."""

import os
import threading
from collections import Counter

from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.sim.script import SimScript
from gaudi_runtime.errors import DeviceOutOfMemory

SEGFAULT_EXIT = 139


class Faults:
    """Counts the steps of each phase from 1, as the script names them."""

    def __init__(self, script: SimScript, rank: int = 0) -> None:
        """`script` has no fault left when it spares this rank."""
        spared = script.only_rank is not None and script.only_rank != rank
        self.script = SimScript() if spared else script
        self._steps: Counter[tuple[str, BucketPhase]] = Counter()

    def compiling(self, phase: BucketPhase) -> float:
        """A compile begins: seconds that it takes beyond its own. Raises, stalls or ends the process by script."""
        at, script = self._next("compile", phase), self.script
        if at == script.stall_at_bucket:
            threading.Event().wait()
        if at == script.crash_at_bucket:
            os._exit(SEGFAULT_EXIT)
        if at == script.raise_at_bucket:
            raise RuntimeError(f"the script says raiseAtBucket={at}")
        if at == script.oom_at_compile:
            raise DeviceOutOfMemory(f"the script says oomAtCompile={at}")
        return script.slow_seconds if at == script.slow_at_bucket else 0.0

    def capturing(self, phase: BucketPhase) -> None:
        """A capture begins. Raises DeviceOutOfMemory by script."""
        at = self._next("capture", phase)
        if at == self.script.oom_at_bucket:
            raise DeviceOutOfMemory(f"the script says oomAtBucket={at}")

    def _next(self, verb: str, phase: BucketPhase) -> str:
        self._steps[verb, phase] += 1
        return f"{phase}:{self._steps[verb, phase]}"
