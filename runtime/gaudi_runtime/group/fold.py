"""The answers of all ranks folded into one: a bucket counts when every rank has it, with the bytes of the fullest."""

from collections.abc import Mapping

from gaudi_runtime.engines.protocol import DeviceMemory
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, RankFailed
from gaudi_runtime.group.messages import Failure, Word

OUT_OF_MEMORY = "DeviceOutOfMemory"
GRAPH_REFUSED = "GraphRefused"


def failure_of(error: Exception) -> Failure:
    """What a rank says about an error; one that is none of ours goes by its name."""
    reasons = {DeviceOutOfMemory: OUT_OF_MEMORY, GraphRefused: GRAPH_REFUSED}
    reason = reasons.get(type(error)) or getattr(error, "reason", "Crashed")
    said = str(error) if reason != "Crashed" else f"{type(error).__name__}: {error}"
    return Failure(reason=reason, message=said[:1024])


def raise_first_failure(words: Mapping[int, Word]) -> None:
    """Raise what the first rank that failed has met, naming the rank; `words` by rank."""
    for rank, word in sorted(words.items()):
        if word.failure is None:
            continue
        said = f"rank {rank}: {word.failure.message}"
        if word.failure.reason == OUT_OF_MEMORY:
            raise DeviceOutOfMemory(said)
        if word.failure.reason == GRAPH_REFUSED:
            raise GraphRefused(said)
        raise RankFailed(word.failure.reason, f"R{said[1:]}")


def least_memory(own: DeviceMemory, words: Mapping[int, Word]) -> DeviceMemory:
    """What every rank has, in bytes."""
    all_ranks = [own, *(DeviceMemory(*word.answer) for word in words.values())]
    return DeviceMemory(min(each.free for each in all_ranks), min(each.total for each in all_ranks))


def most(own: int, words: Mapping[int, Word]) -> int:
    """The largest figure."""
    return max(own, *(int(word.answer) for word in words.values()))
