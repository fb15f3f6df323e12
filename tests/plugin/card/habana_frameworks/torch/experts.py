"""The card's operation for the experts of a layer, computed by the CPU.

The kernel of the card is not public. This operation computes what the plugin's documentation and its arguments say, so
tests with it prove shapes and the plugin's code around the kernel, and nothing about the kernel itself.
"""

from collections.abc import Sequence

import torch

_ARGUMENTS = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights, Tensor[] w12, Tensor[] w3"
_EXPERTS = "bool permuted_weights=True, int experts_min=0, int experts_max=0"
_LIMIT, _ALPHA = 7.0, 1.702
"""The constants of gpt-oss, the only family whose experts have a bias."""

LIBRARY = torch.library.Library("hpu", "FRAGMENT")
LIBRARY.define(
    f"mixture_of_experts({_ARGUMENTS}, *, {_EXPERTS}, str activation='silu', int? chunk_size=None,"
    " int? total_experts=None) -> Tensor"
)
LIBRARY.define(
    f"mixture_of_experts.bias_fused_weights({_ARGUMENTS}, Tensor[] w12_bias, Tensor[] w3_bias, *, {_EXPERTS}) -> Tensor"
)


def _experts(
    hidden_states: torch.Tensor,
    expert_routing_table: torch.Tensor,
    router_weights: torch.Tensor,
    w12: Sequence[torch.Tensor],
    w3: Sequence[torch.Tensor],
    *,
    permuted_weights: bool = True,
    experts_min: int = 0,
    experts_max: int = 0,
    activation: str = "silu",
    chunk_size: int | None = None,
    total_experts: int | None = None,
) -> torch.Tensor:
    """Return the weighted sum of the experts of each token, shape (tokens, hidden size).

    `expert_routing_table` and `router_weights` have the shape (tokens, experts of a token). `w12` has the gate and up
    projections of each expert from `experts_min` on, and `w3` the down projections.
    """
    del permuted_weights, experts_max, activation, chunk_size, total_experts
    total = torch.zeros_like(hidden_states, dtype=torch.float32)
    for expert, (gate_and_up, down) in enumerate(zip(w12, w3, strict=True), experts_min):
        weight = _weight_of_expert(expert, expert_routing_table, router_weights)
        gate, up = (hidden_states.float() @ gate_and_up.float().T).chunk(2, -1)
        total += weight * ((torch.nn.functional.silu(gate) * up) @ down.float().T)
    return total.to(hidden_states.dtype)


def _experts_with_bias(
    hidden_states: torch.Tensor,
    expert_routing_table: torch.Tensor,
    router_weights: torch.Tensor,
    w12: Sequence[torch.Tensor],
    w3: Sequence[torch.Tensor],
    w12_bias: Sequence[torch.Tensor],
    w3_bias: Sequence[torch.Tensor],
    *,
    permuted_weights: bool = True,
    experts_min: int = 0,
    experts_max: int = 0,
) -> torch.Tensor:
    """Return the weighted sum of experts with biases and the clamped activation of gpt-oss."""
    del permuted_weights, experts_max
    total = torch.zeros_like(hidden_states, dtype=torch.float32)
    experts = zip(w12, w3, w12_bias, w3_bias, strict=True)
    for expert, (gate_and_up, down, bias, down_bias) in enumerate(experts, experts_min):
        weight = _weight_of_expert(expert, expert_routing_table, router_weights)
        both = hidden_states.float() @ gate_and_up.float().T + bias.float()
        gate, up = both[..., ::2].clamp(max=_LIMIT), both[..., 1::2].clamp(-_LIMIT, _LIMIT)
        total += weight * (((up + 1) * gate * torch.sigmoid(_ALPHA * gate)) @ down.float().T + down_bias.float())
    return total.to(hidden_states.dtype)


def _weight_of_expert(expert: int, table: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (weights.float() * (table == expert)).sum(-1, keepdim=True)


def _same_shape(hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return torch.empty_like(hidden_states)


for _name, _function in (
    ("mixture_of_experts", _experts),
    ("mixture_of_experts.bias_fused_weights", _experts_with_bias),
):
    LIBRARY.impl(_name, _function, "CPU")
    LIBRARY.impl(_name, _same_shape, "Meta")
