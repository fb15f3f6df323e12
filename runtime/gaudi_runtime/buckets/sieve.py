"""Collects the buckets of one phase and counts, by rule, those that did not pass."""

from collections import Counter
from collections.abc import Sized
from math import prod

from gaudi_runtime.buckets.bucket import Bucket, Dropped
from gaudi_runtime.buckets.filters import Rule
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible

MAX_BUCKETS = 250_000
"""Most buckets of a phase: each is a graph, and this many would take weeks to warm up."""


MAX_CANDIDATES = 5_000_000
"""Most combinations of a phase that are looked at: seconds of work."""

_EXAMPLES = {BucketPhase.PROMPT: "(1, 128, 0)", BucketPhase.DECODE: "(1, 1, 128)"}


def check_candidates(phase: BucketPhase, *dimensions: Sized) -> None:
    """Raises PlanImpossible before time and memory are spent on a plan that nobody can warm up."""
    candidates = prod(len(values) for values in dimensions)
    if candidates > MAX_CANDIDATES:
        raise PlanImpossible(
            f"the {phase} ranges combine to {candidates} buckets, at most {MAX_CANDIDATES} are looked at; "
            f"choose larger steps in bucketing.{phase} or another strategy"
        )


class Sieve:
    """Buckets of one phase on their way into a plan."""

    def __init__(self, phase: BucketPhase) -> None:
        self._phase = phase
        self._kept: set[Bucket] = set()
        self._dropped: Counter[Rule] = Counter()

    def keep(self, bucket: Bucket) -> None:
        """Take a bucket that broke no rule. Raises PlanImpossible when the plan grows out of all proportion."""
        self._kept.add(bucket)
        if len(self._kept) > MAX_BUCKETS:
            raise PlanImpossible(
                f"there are more than {MAX_BUCKETS} {self._phase} buckets; choose larger steps "
                f"in bucketing.{self._phase} or another strategy"
            )

    def drop(self, rule: Rule, count: int = 1) -> None:
        """Count buckets that broke a rule."""
        self._dropped[rule] += count

    def buckets(self) -> tuple[Bucket, ...]:
        """What is left, sorted. Raises PlanImpossible when nothing is, with the rules that removed it."""
        if not self._kept:
            raise PlanImpossible(self._why_empty())
        return tuple(sorted(self._kept))

    def dropped(self) -> tuple[Dropped, ...]:
        """The count of every rule that removed something, most first."""
        return tuple(Dropped(self._phase, rule, count) for rule, count in self._dropped.most_common())

    def _why_empty(self) -> str:
        if not self._dropped:
            # Ranges are never empty: only a file can ask for nothing.
            return f"bucket file: no line asks for a {self._phase} bucket; add one such as {_EXAMPLES[self._phase]}"
        reasons = " and ".join(f"{count} dropped because {rule}" for rule, count in self._dropped.most_common())
        return f"no {self._phase} bucket is left: {reasons}; change bucketing.{self._phase} or raise the limit"
