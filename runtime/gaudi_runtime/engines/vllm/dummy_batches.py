"""Runs one bucket as a dummy batch of the plugin and answers what it took; a lack of memory is an answer, no error."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypedDict

from gaudi_runtime.contract.report import BucketPhase

Forward = Callable[[], None]


class Outcome(TypedDict):
    """One bucket. `bytes` is what the device has less than before; `out_of_memory` says why it could not be done."""

    bytes: int
    graph: bool
    out_of_memory: str | None


def refused(reason: str) -> Outcome:
    """Of a bucket for which there is no memory."""
    return Outcome(bytes=0, graph=False, out_of_memory=reason)


class DummyBatches:
    """`free` answers the bytes that the device has free now."""

    def __init__(self, runner: Any, free: Callable[[], int]) -> None:
        self._runner, self._free = runner, free
        self._lost: str | None = None

    def run(self, phase: BucketPhase, bucket: Sequence[int], execute: Callable[[Forward], bool]) -> Outcome:
        """`execute` is handed the forward and answers whether a graph was kept.

        Raises what the plugin raises, except that the device ran out of memory.
        """
        if self._lost:
            return refused(self._lost)
        before = self._free()
        try:
            graph = execute(self._forward(phase, bucket))
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
            return refused(self._give_up(phase, bucket, error))
        return Outcome(bytes=max(0, before - self._free()), graph=graph, out_of_memory=None)

    def _forward(self, phase: BucketPhase, bucket: Sequence[int]) -> Forward:
        shape = tuple(bucket)
        prompt, decode = (shape, None) if phase is BucketPhase.PROMPT else (None, shape)
        return partial(self._runner._prepare_dummy_scenario, prompt, decode)

    def _give_up(self, phase: BucketPhase, bucket: Sequence[int], error: RuntimeError) -> str:
        """No further dummy batch in this process: the plugin does not clean up after a forward that failed."""
        self._lost = f"the device ran out of memory at {phase} bucket {tuple(bucket)} ({error})"
        self._runner.requests, self._runner.scheduler_output = {}, None
        return self._lost


def _is_out_of_memory(error: RuntimeError) -> bool:
    """The bridge raises plain RuntimeErrors; their text is all there is to judge by."""
    return "memory" in str(error).lower()
