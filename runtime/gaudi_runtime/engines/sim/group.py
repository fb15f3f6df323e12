"""The sim engine over several pods: all ranks execute each call, and a step counts when all ranks have done it.

The leader alone answers requests (docs/how-to/several-nodes.md).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import DeviceMemory, Progress
from gaudi_runtime.engine_protocol.group import OtherPods
from gaudi_runtime.engine_protocol.messages import Verb, raise_first_failure
from gaudi_runtime.engines.sim.engine import SimEngine

T = TypeVar("T")


class SimLeader(SimEngine):
    """Rank 0 of a group of sim engines, which sends each call to the other ranks and executes it at the same time."""

    def span(self, others: OtherPods) -> None:
        """Run as one engine together with the engines of these pods. Call it before `load`."""
        self._others = others

    def load(self, progress: Progress) -> None:
        """Wait for all ranks, then load on all of them."""
        self._others.gather(progress)
        self._all(Verb.LOAD, partial(super().load, progress))

    def profile(self) -> DeviceMemory:
        """Return the memory that the fullest rank has left after its largest dummy forward."""
        return least_memory(*self._all(Verb.PROFILE, super().profile))

    def block_bytes(self) -> int:
        """Return the bytes of one KV block on the rank where it is largest."""
        return most(*self._all(Verb.BLOCK_BYTES, super().block_bytes))

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the KV cache of every rank. Raises DeviceOutOfMemory."""
        self._all(Verb.ALLOCATE, partial(super().allocate, kv_blocks), kv_blocks)

    def use_plan(self, plan: BucketPlan) -> None:
        """Set the same buckets on all ranks."""
        self._all(Verb.PLAN, partial(super().use_plan, plan), plan.prompt, plan.decode)

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape on every rank. Raises DeviceOutOfMemory if a rank has no memory left."""
        self._all(Verb.WARM, partial(super().warm, phase, bucket), phase, bucket)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture on every rank and return the bytes of the largest graph. Raises DeviceOutOfMemory or GraphRefused."""
        return most(*self._all(Verb.CAPTURE, partial(super().capture, phase, bucket), phase, bucket))

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run the sampler's settings for one batch size."""
        self._all(Verb.SAMPLER, partial(super().warm_sampler, batch_size, progress), batch_size)

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps. Return False if a rank swaps no blocks."""
        own, others = self._all(Verb.DEFRAGMENTER, partial(super().warm_defragmenter, progress))
        return own and all(others)

    def memory(self) -> DeviceMemory:
        """Return the device memory of the fullest rank now."""
        return least_memory(*self._all(Verb.MEMORY, super().memory))

    def start_serving(self) -> None:
        """Accept requests from here on. Called on the event loop, so it waits for nothing."""
        self._others.serve()
        super().start_serving()

    def _all(self, verb: Verb, own: Callable[[], T], *arguments: object) -> tuple[T, list[Any]]:
        """Return the answers of this rank and of the others. Raises the failure of this rank, or that of another."""
        asked = self._others.send_command(verb, *arguments)
        try:
            answer = own()
        finally:
            # Wait even if this rank has failed, because a late answer would be read as the answer to the next call.
            updates = {rank: each.result() for rank, each in asked.items()}
        raise_first_failure(updates)
        return answer, [each.answer for each in updates.values()]


class SimRank(SimEngine):
    """A rank above 0 of a group of sim engines, which executes the calls of the leader."""

    def do(self, verb: Verb, arguments: Sequence[Any], progress: Progress) -> Any:
        """Execute a call and return its answer as plain data; this blocks. Raises the errors of the engine."""
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
    """Return the least memory that any rank of a group of sim engines has, in bytes."""
    all_ranks = [own, *(DeviceMemory(*each) for each in others)]
    return DeviceMemory(min(each.free for each in all_ranks), min(each.total for each in all_ranks))


def most(own: int, others: Iterable[int]) -> int:
    """Return the largest figure that any rank of a group of sim engines reports."""
    return max(own, *others)
