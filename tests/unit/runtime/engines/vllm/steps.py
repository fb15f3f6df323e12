"""Steps that vLLM's scheduler passes to a worker, with only the fields that are recorded.

Importing the real classes takes about ten seconds. tests/vllm runs the same code with the real classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class NewRequest:
    """The recorded fields of vllm.v1.core.sched.output.NewRequestData."""

    req_id: str
    num_computed_tokens: int


@dataclass(frozen=True)
class CachedRequests:
    """The recorded fields of vllm.v1.core.sched.output.CachedRequestData."""

    req_ids: list[str]
    num_computed_tokens: list[int]


@dataclass(frozen=True)
class Step:
    """The recorded fields of vllm.v1.core.sched.output.SchedulerOutput."""

    scheduled_new_reqs: list[NewRequest]
    scheduled_cached_reqs: CachedRequests
    num_scheduled_tokens: dict[str, int]
    total_num_scheduled_tokens: int


def step_of(
    new: Mapping[str, int] | None = None,
    cached: Mapping[str, tuple[int, int]] | None = None,
    prefix: Mapping[str, int] | None = None,
) -> Step:
    """Return a step with `new` requests (tokens) and `cached` requests (computed tokens, tokens), in this order.

    `prefix` is the number of tokens of a new request that are in the prefix cache.
    """
    new, cached, prefix = new or {}, cached or {}, prefix or {}
    tokens = {**new, **{name: query for name, (_, query) in cached.items()}}
    return Step(
        [NewRequest(name, prefix.get(name, 0)) for name in new],
        CachedRequests(list(cached), [computed for computed, _ in cached.values()]),
        tokens,
        sum(tokens.values()),
    )
