"""Sequence: one completion in work, and Batch: what the scheduler hands to the runner. No torch here."""

from dataclasses import dataclass, field

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.protocol import SamplingParams


@dataclass(eq=False)
class Sequence:
    """A prompt and its growing answer.

    `computed` counts the leading tokens whose keys and values are in the cache; `blocks` holds their KV blocks in
    order of position. A preempted sequence has neither and starts over with all its tokens as the prompt.
    """

    prompt: tuple[int, ...]
    sampling: SamplingParams
    seed: int
    tokens: list[int] = field(init=False)
    blocks: list[int] = field(default_factory=list)
    computed: int = 0

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    @property
    def pending(self) -> int:
        """Tokens that are not in the cache yet."""
        return len(self.tokens) - self.computed

    @property
    def generated(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - len(self.prompt)


@dataclass(frozen=True)
class Work:
    """One row of a batch, copied out of its sequence so that a cancellation cannot change a running forward.

    `tokens` go to positions `start`, `start + 1`, ...; `samples` is False for all but the last part of a prompt.
    """

    sequence: Sequence
    tokens: tuple[int, ...]
    start: int
    blocks: tuple[int, ...]
    samples: bool


@dataclass(frozen=True)
class Batch:
    """Rows of one phase, and the smallest shape that holds them (before padding to a bucket)."""

    phase: BucketPhase
    works: tuple[Work, ...]
    shape: Bucket
