"""The sim engine over several pods. All ranks execute each call, and a step ends when all ranks have ended it.

Only the leader answers requests (docs/how-to/several-nodes.md).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import DeviceMemory, Progress
from gaudi_runtime.engine_protocol.group import OtherPods
from gaudi_runtime.engine_protocol.messages import MessageVerb, raise_first_failure_message
from gaudi_runtime.engines.sim.engine import SimEngine

T = TypeVar("T")


class SimLeader(SimEngine):
    """Rank 0 of a group of sim engines, which sends each call to the other ranks and executes it at the same time."""

    def set_other_pods(self, other_pods: OtherPods) -> None:
        """Combine this engine with the engines of the other pods. Call this method before `load`."""
        self._other_pods = other_pods

    def load(self, progress: Progress) -> None:
        """Wait for all ranks, then load on all of them."""
        self._other_pods.wait_for_ranks(progress)
        self._run_on_all(MessageVerb.LOAD, partial(super().load, progress))

    def profile(self) -> DeviceMemory:
        """Return the device memory after the profile run, on the rank with the least free memory."""
        return smallest_group_memory(*self._run_on_all(MessageVerb.PROFILE, super().profile))

    def block_bytes(self) -> int:
        """Return the largest KV block of any rank, in bytes."""
        return largest_value(*self._run_on_all(MessageVerb.BLOCK_BYTES, super().block_bytes))

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the KV cache of every rank. Raises DeviceOutOfMemory."""
        self._run_on_all(MessageVerb.ALLOCATE, partial(super().allocate, kv_blocks), kv_blocks)

    def use_plan(self, plan: BucketPlan) -> None:
        """Set the same buckets on all ranks."""
        self._run_on_all(MessageVerb.PLAN, partial(super().use_plan, plan), plan.prompt, plan.decode)

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape on every rank. Raises DeviceOutOfMemory if a rank has no memory left."""
        self._run_on_all(MessageVerb.WARM, partial(super().warm, phase, bucket), phase, bucket)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture a graph on every rank and return the largest size. Raises DeviceOutOfMemory or GraphRefused."""
        return largest_value(
            *self._run_on_all(MessageVerb.CAPTURE, partial(super().capture, phase, bucket), phase, bucket)
        )

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run all sampler settings for one batch size."""
        self._run_on_all(MessageVerb.SAMPLER, partial(super().warm_sampler, batch_size, progress), batch_size)

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps on all ranks. Return False if any rank swaps no blocks."""
        own_answer, other_answers = self._run_on_all(
            MessageVerb.DEFRAGMENTER, partial(super().warm_defragmenter, progress)
        )
        return own_answer and all(other_answers)

    def memory(self) -> DeviceMemory:
        """Return the current device memory of the rank with the least free memory."""
        return smallest_group_memory(*self._run_on_all(MessageVerb.MEMORY, super().memory))

    def start_serving(self) -> None:
        """Accept requests from now on. This method runs on the event loop and does not block."""
        self._other_pods.announce_serving()
        super().start_serving()

    def _run_on_all(self, verb: MessageVerb, own_call: Callable[[], T], *arguments: object) -> tuple[T, list[Any]]:
        """Return the answer of this rank and the answers of the other ranks. Raises the failure of any rank."""
        futures = self._other_pods.send_command(verb, *arguments)
        try:
            own_answer = own_call()
        finally:
            # Wait for the other ranks even if this rank has failed. Otherwise a late answer would be read as the answer
            # to the next call.
            updates = {rank: future.result() for rank, future in futures.items()}
        raise_first_failure_message(updates)
        return own_answer, [update.answer for update in updates.values()]


class SimRank(SimEngine):
    """A rank above 0 in a group of sim engines. It executes the calls of the leader."""

    def run_command(self, verb: MessageVerb, arguments: Sequence[Any], progress: Progress) -> Any:
        """Execute a call and return its answer as plain data. The method blocks and raises the engine's errors."""
        match verb:
            case MessageVerb.LOAD:
                self.load(progress)
            case MessageVerb.PROFILE | MessageVerb.MEMORY:
                memory = self.profile() if verb is MessageVerb.PROFILE else self.memory()
                return memory.free, memory.total
            case MessageVerb.BLOCK_BYTES:
                return self.block_bytes()
            case MessageVerb.ALLOCATE:
                self.allocate(*arguments)
            case MessageVerb.PLAN:
                prompt, decode = (tuple(Bucket(*bucket) for bucket in buckets) for buckets in arguments)
                self.use_plan(BucketPlan(prompt, decode))
            case MessageVerb.WARM:
                self.warm(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case MessageVerb.CAPTURE:
                return self.capture(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case MessageVerb.SAMPLER:
                self.warm_sampler(arguments[0], progress)
            case MessageVerb.DEFRAGMENTER:
                return self.warm_defragmenter(progress)
            case MessageVerb.SERVE:
                self.start_serving()
        return None


def smallest_group_memory(own_memory: DeviceMemory, other_memories: Iterable[Sequence[int]]) -> DeviceMemory:
    """Return the smallest free and the smallest total memory of all ranks, in bytes."""
    memories = [own_memory, *(DeviceMemory(*memory) for memory in other_memories)]
    return DeviceMemory(min(memory.free for memory in memories), min(memory.total for memory in memories))


def largest_value(own_value: int, other_values: Iterable[int]) -> int:
    """Return the largest of the values that the ranks report."""
    return max(own_value, *other_values)
