"""The engine of a replica over several pods: every rank does each verb, and what counts is what all have done.

Requests are the leader's own: an engine that needs its ranks for every step reaches them itself (gathering.py).
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.protocol import (
    ChatTokenizer,
    DeviceMemory,
    EngineLoad,
    GenerationChunk,
    OwnMemory,
    Progress,
    RecipeKey,
    SamplingParams,
    TokenEngine,
)
from gaudi_runtime.group.members import Members, wait_for_all
from gaudi_runtime.group.messages import Verb, Word, raise_first_failure
from gaudi_runtime.traffic.serving_histogram import ServingHistogram

T = TypeVar("T")


class RankedEngine(OwnMemory, TokenEngine, Protocol):
    """What the leader's own rank must be able to do."""


class GroupEngine:
    """`own` is the leader's rank, `members` are the others; `waits` hears for which ranks the group waits."""

    def __init__(self, own: RankedEngine, members: Members, waits: Callable[[list[int]], None]) -> None:
        self._own, self._members, self._waits = own, members, waits

    @property
    def counters(self) -> ServingHistogram:
        """What serving met so far."""
        return self._own.counters

    @property
    def captures_graphs(self) -> bool:
        """Whether this execution mode has graphs to capture."""
        return self._own.captures_graphs

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The checkpoint's tokenizer."""
        return self._own.tokenizer

    def report_fields(self) -> Mapping[str, object]:
        """As the leader's rank says."""
        return self._own.report_fields()

    def notes(self) -> tuple[str, ...]:
        """As the leader's rank says."""
        return self._own.notes()

    def recipe_key(self) -> RecipeKey | None:
        """As the leader's rank says: recipes are kept by each pod for itself."""
        return self._own.recipe_key()

    def load(self, progress: Progress) -> None:
        """Wait for all ranks, then let all read weights. Raises a RuntimeStartError."""
        wait_for_all(self._members, self._waits, progress)
        self._all(Verb.LOAD, lambda: self._own.load(progress))

    def profile(self) -> DeviceMemory:
        """What the fullest rank has left after its largest dummy forward."""
        return least_memory(*self._all(Verb.PROFILE, self._own.profile))

    def block_bytes(self) -> int:
        """Bytes of one KV block, of the rank where it is largest."""
        return most(*self._all(Verb.BLOCK_BYTES, self._own.block_bytes))

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the KV cache of every rank. Raises DeviceOutOfMemory."""
        self._all(Verb.ALLOCATE, lambda: self._own.allocate(kv_blocks), kv_blocks)

    def use_plan(self, plan: BucketPlan) -> None:
        """Let all ranks take the same buckets."""
        self._all(Verb.PLAN, lambda: self._own.use_plan(plan), plan.prompt, plan.decode)

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape on every rank. Raises DeviceOutOfMemory when one has no room."""
        self._all(Verb.WARM, lambda: self._own.warm(phase, bucket), phase, bucket)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture on every rank; bytes of the largest graph. Raises DeviceOutOfMemory or GraphRefused."""
        return most(*self._all(Verb.CAPTURE, lambda: self._own.capture(phase, bucket), phase, bucket))

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run the sampler's settings for one batch size."""
        self._all(Verb.SAMPLER, lambda: self._own.warm_sampler(batch_size, progress), batch_size)

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps; False where a rank swaps none."""
        own, words = self._all(Verb.DEFRAGMENTER, lambda: self._own.warm_defragmenter(progress))
        return own and all(word.answer for word in words.values())

    def memory(self) -> DeviceMemory:
        """Device memory now, of the fullest rank."""
        return least_memory(*self._all(Verb.MEMORY, self._own.memory))

    def start_serving(self) -> None:
        """From here on requests may come. Called on the event loop, so nothing is waited for."""
        self._members.tell(Verb.SERVE)
        self._own.start_serving()

    def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> AsyncGenerator[GenerationChunk, None]:
        """Stream one completion."""
        return self._own.generate(prompt, sampling)

    def admissible(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """None when a request of this size can ever be served, otherwise the sentence that says why not."""
        return self._own.admissible(prompt_tokens, max_tokens)

    def load_now(self) -> EngineLoad:
        """Current load."""
        return self._own.load_now()

    def heartbeat_seconds(self) -> float:
        """Of the leader's own rank; that the others live is known by their connections."""
        return self._own.heartbeat_seconds()

    async def close(self) -> None:
        """Free what the leader's rank holds; the others are told when the group is left."""
        await self._own.close()

    def _all(self, verb: Verb, own: Callable[[], T], *arguments: object) -> tuple[T, dict[int, Word]]:
        """The answer of the leader's rank and those of the others; their first failure when it has none itself."""
        asked = self._members.tell(verb, *arguments)
        try:
            answer = own()
        finally:
            # Whatever ours has met: the next verb must not meet a late answer to this one.
            words = {rank: each.result() for rank, each in asked.items()}
        raise_first_failure(words)
        return answer, words


def least_memory(own: DeviceMemory, words: Mapping[int, Word]) -> DeviceMemory:
    """What every rank has, in bytes."""
    all_ranks = [own, *(DeviceMemory(*word.answer) for word in words.values())]
    return DeviceMemory(min(each.free for each in all_ranks), min(each.total for each in all_ranks))


def most(own: int, words: Mapping[int, Word]) -> int:
    """The largest figure."""
    return max(own, *(int(word.answer) for word in words.values()))
