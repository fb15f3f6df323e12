"""The kinds of requests in one call of the sampler, by the request parameters that change the sampler's operations."""

from collections.abc import Iterable
from typing import Any

_DISABLED: dict[str, tuple[object, ...]] = {
    "top_k": (0, -1),
    "top_p": (1.0,),
    "logprobs": (None,),
    "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
    "repetition_penalty": (1.0,),
    "seed": (None,),
    "allowed_token_ids": (None,),
    "structured_outputs": (None,),
}
"""The values of request parameters that change nothing."""
_GREEDY_BELOW = 1e-5
"""vLLM chooses the most likely token if the temperature is lower."""


def describe_requests(runner: Any, request_ids: Iterable[str]) -> str:
    """Return the parameters of these requests of a model runner, for example "top_k, logprobs".

    Without such parameters, the answer is "greedy", "random" or, if the requests differ, "greedy and random".
    """
    requests = getattr(runner, "requests", None) or {}
    states = (requests.get(request_id) for request_id in request_ids)
    sampled = [state.sampling_params for state in states if state and state.sampling_params]
    temperatures = {"greedy" if each.temperature < _GREEDY_BELOW else "random" for each in sampled}
    names = [
        name
        for name, disabled in _DISABLED.items()
        if any(getattr(each, name, disabled[0]) not in disabled for each in sampled)
    ]
    mixed = [" and ".join(sorted(temperatures))] if len(temperatures) > 1 or not names else []
    return ", ".join([*mixed, *names])
