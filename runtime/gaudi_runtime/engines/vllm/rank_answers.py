"""The answers of all ranks folded into one: a bucket counts when every rank has it, with the bytes of the largest."""

from collections.abc import Sequence
from typing import Any

from gaudi_runtime.errors import EngineLost, RankFailed


def unwrapped(answers: Sequence[dict[str, Any]], verb: str) -> list[Any]:
    """The answer of each rank. Raises RankFailed with the first failure, naming its rank."""
    if not answers:
        raise EngineLost(f"No rank of vLLM answered {verb}.")
    for rank, each in enumerate(answers):
        if "answer" not in each:
            raise RankFailed(str(each["reason"]), f"Rank {rank} failed at {verb}: {each['message']}")
    return [each["answer"] for each in answers]


def fold_outcomes(outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Bytes of the largest, a graph when all have one, the first reason of those that ran out of memory."""
    short = [each["out_of_memory"] for each in outcomes if each["out_of_memory"]]
    return {
        "bytes": max(each["bytes"] for each in outcomes),
        "graph": all(each["graph"] for each in outcomes),
        "out_of_memory": short[0] if short else None,
    }


def fold_sentences(answers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The degradations of all ranks, once each."""
    return tuple(dict.fromkeys(sentence for each in answers for sentence in each["degradations"]))


def least(answers: Sequence[dict[str, Any]], name: str) -> int:
    """The smallest figure of that name: what all ranks have."""
    return min(int(each[name]) for each in answers)


def most(answers: Sequence[dict[str, Any]], name: str) -> int:
    """The largest figure of that name: what the fullest rank has."""
    return max(int(each[name]) for each in answers)
