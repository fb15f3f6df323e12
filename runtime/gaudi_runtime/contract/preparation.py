"""How buckets are prepared after their compile, and why some of them are left out, in the contract's report."""

from enum import StrEnum


class Preparation(StrEnum):
    """The step after the compile of each bucket in the contract's report."""

    CAPTURE = "Capture"
    """A graph is captured (HpuGraphs)."""
    EXECUTION = "Execution"
    """The bucket is executed a second time (TorchCompile, which has no graph per bucket)."""
    NOTHING = "Nothing"
    """The bucket was executed by its compile (Lazy and Eager), or warm-up is disabled."""


class SkipCause(StrEnum):
    """The cause of a skipped bucket in the contract's report. Capture ends in spite of the first two causes."""

    LIMIT = "Limit"
    """A limit in the spec: the time budget, or the most tokens of a graph."""
    MEMORY = "Memory"
    """The memory for graphs is used up."""
    FAILURE = "Failure"
    """Any other cause."""
