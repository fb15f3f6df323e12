"""How buckets are prepared after their compile, and why some of them are left out, in the contract's report."""

from enum import StrEnum

from gaudi_runtime.contract.config import ExecutionMode


class Preparation(StrEnum):
    """The step after the compile of each bucket in the contract's report."""

    CAPTURE = "Capture"
    """A graph is captured (HpuGraphs)."""
    EXECUTION = "Execution"
    """The bucket is executed a second time (TorchCompile, which has no graph per bucket)."""
    NOTHING = "Nothing"
    """The bucket was executed by its compile (Lazy and Eager), or warm-up is disabled."""

    @property
    def words(self) -> tuple[str, str]:
        """The noun and the participle for buckets that are prepared, as in "8 of 8 prompt graphs captured"."""
        return _WORDS[self]


_WORDS = {
    Preparation.CAPTURE: ("graphs", "captured"),
    Preparation.EXECUTION: ("buckets", "executed"),
    Preparation.NOTHING: ("buckets", "warmed"),
}


def preparation_of(mode: ExecutionMode, *, captures: bool) -> Preparation:
    """Return the step that follows the compile of each bucket. With torch.compile, the compiled code is the graph."""
    if not captures:
        return Preparation.NOTHING
    return Preparation.EXECUTION if mode is ExecutionMode.TORCH_COMPILE else Preparation.CAPTURE


class PreparationSkipCause(StrEnum):
    """The cause of a skipped bucket in the contract's report. Capture ends in spite of the first two causes."""

    LIMIT = "Limit"
    """A limit in the spec: the time budget, or the most tokens of a graph."""
    MEMORY = "Memory"
    """The memory for graphs is used up."""
    FAILURE = "Failure"
    """Any other cause."""
