"""The sim engine over several pods: each verb is done by all ranks, and what counts is what all have done.

Requests are the leader's own (docs/how-to/several-nodes.md).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import DeviceMemory, Progress
from gaudi_runtime.engine_protocol.group import Others
from gaudi_runtime.engine_protocol.messages import Verb, raise_first_failure
from gaudi_runtime.engines.sim.engine import SimEngine

T = TypeVar("T")


class SimLeader(SimEngine):
    """Rank 0, which lets the others do what it does, at the same time."""

    def span(self, others: Others) -> None:
        """Be one with the engines of these pods. Called before `load`."""
        self._others = others

    def load(self, progress: Progress) -> None:
        """Wait for all ranks, then let all load."""
        self._others.gather(progress)
        self._all(Verb.LOAD, partial(super().load, progress))

    def profile(self) -> DeviceMemory:
        """What the fullest rank has left after its largest dummy forward."""
        return least_memory(*self._all(Verb.PROFILE, super().profile))

    def block_bytes(self) -> int:
        """Bytes of one KV block, of the rank where it is largest."""
        return most(*self._all(Verb.BLOCK_BYTES, super().block_bytes))

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the KV cache of every rank. Raises DeviceOutOfMemory."""
        self._all(Verb.ALLOCATE, partial(super().allocate, kv_blocks), kv_blocks)

    def use_plan(self, plan: BucketPlan) -> None:
        """Let all ranks take the same buckets."""
        self._all(Verb.PLAN, partial(super().use_plan, plan), plan.prompt, plan.decode)

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape on every rank. Raises DeviceOutOfMemory when one has no room."""
        self._all(Verb.WARM, partial(super().warm, phase, bucket), phase, bucket)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture on every rank; bytes of the largest graph. Raises DeviceOutOfMemory or GraphRefused."""
        return most(*self._all(Verb.CAPTURE, partial(super().capture, phase, bucket), phase, bucket))

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run the sampler's settings for one batch size."""
        self._all(Verb.SAMPLER, partial(super().warm_sampler, batch_size, progress), batch_size)

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps; False where a rank swaps none."""
        own, others = self._all(Verb.DEFRAGMENTER, partial(super().warm_defragmenter, progress))
        return own and all(others)

    def memory(self) -> DeviceMemory:
        """Device memory now, of the fullest rank."""
        return least_memory(*self._all(Verb.MEMORY, super().memory))

    def start_serving(self) -> None:
        """From here on requests may come. Called on the event loop, so nothing is waited for."""
        self._others.serve()
        super().start_serving()

    def _all(self, verb: Verb, own: Callable[[], T], *arguments: object) -> tuple[T, list[Any]]:
        """The answer of this rank and those of the others; their first failure when it has none itself."""
        asked = self._others.order(verb, *arguments)
        try:
            answer = own()
        finally:
            # Whatever ours has met: the next verb must not meet a late answer to this one.
            updates = {rank: each.result() for rank, each in asked.items()}
        raise_first_failure(updates)
        return answer, [each.answer for each in updates.values()]


class SimRank(SimEngine):
    """A rank above 0, which does what the leader orders."""

    def do(self, verb: Verb, arguments: Sequence[Any], progress: Progress) -> Any:
        """The answer as plain data; it blocks. Raises what the engine raises."""
        match verb:
            case Verb.LOAD:
                self.load(progress)
            case Verb.PROFILE | Verb.MEMORY:
                found = self.profile() if verb is Verb.PROFILE else self.memory()
                return found.free, found.total
            case Verb.BLOCK_BYTES:
                return self.block_bytes()
            case Verb.ALLOCATE:
                self.allocate(*arguments)
            case Verb.PLAN:
                prompt, decode = (tuple(Bucket(*each) for each in phase) for phase in arguments)
                self.use_plan(BucketPlan(prompt, decode))
            case Verb.WARM:
                self.warm(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case Verb.CAPTURE:
                return self.capture(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case Verb.SAMPLER:
                self.warm_sampler(arguments[0], progress)
            case Verb.DEFRAGMENTER:
                return self.warm_defragmenter(progress)
            case Verb.SERVE:
                self.start_serving()
        return None


def least_memory(own: DeviceMemory, others: Iterable[Sequence[int]]) -> DeviceMemory:
    """What every rank has, in bytes."""
    all_ranks = [own, *(DeviceMemory(*each) for each in others)]
    return DeviceMemory(min(each.free for each in all_ranks), min(each.total for each in all_ranks))


def most(own: int, others: Iterable[int]) -> int:
    """The largest figure."""
    return max(own, *others)
