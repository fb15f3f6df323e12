"""Steps as vLLM's scheduler hands them to a worker, with the recorded names and none besides.

The real classes cost twenty seconds of import; tests/vllm holds the same code to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class NewRequest:
    """Of vllm.v1.core.sched.output.NewRequestData."""

    req_id: str
    num_computed_tokens: int


@dataclass(frozen=True)
class CachedRequests:
    """Of vllm.v1.core.sched.output.CachedRequestData."""

    req_ids: list[str]
    num_computed_tokens: list[int]


@dataclass(frozen=True)
class Step:
    """Of vllm.v1.core.sched.output.SchedulerOutput."""

    scheduled_new_reqs: list[NewRequest]
    scheduled_cached_reqs: CachedRequests
    num_scheduled_tokens: dict[str, int]
    total_num_scheduled_tokens: int


def step_of(
    new: Mapping[str, int] | None = None,
    cached: Mapping[str, tuple[int, int]] | None = None,
    prefix: Mapping[str, int] | None = None,
) -> Step:
    """New requests by their tokens, those of earlier steps by (computed tokens, tokens), in this order.

    `prefix` has what the prefix cache knew of a new request, in tokens.
    """
    new, cached, prefix = new or {}, cached or {}, prefix or {}
    tokens = {**new, **{name: query for name, (_, query) in cached.items()}}
    return Step(
        [NewRequest(name, prefix.get(name, 0)) for name in new],
        CachedRequests(list(cached), [computed for computed, _ in cached.values()]),
        tokens,
        sum(tokens.values()),
    )
