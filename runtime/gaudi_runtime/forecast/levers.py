"""The settings that advice may turn: in which steps, and what they are called in a GaudiInference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import KvCacheDtype
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.units import GIB

Value = int | float | str

MOST_SHARE = 95
"""In percent: what is left is for what no forecast knows of."""

MOST_MEMORY = 2048 * GIB
TENSOR_RANKS = (2, 4, 8)
"""A node has eight cards."""


@dataclass(frozen=True)
class Lever:
    """One setting, and its values from the least change to the largest; `set` puts one into a deployment."""

    verb: str
    field: str
    now: float
    values: Sequence[Value]
    set: Callable[[ForecastInputs, Value], ForecastInputs]

    def text(self, value: Value) -> str:
        """What to do, as a part of a sentence."""
        shown = (
            f"{int(value) // GIB}Gi" if self.field == MEMORY else f"{value:g}" if isinstance(value, float) else value
        )
        return f"{self.verb} {self.field} to {shown}"

    def distance(self, value: Value) -> float:
        """How large the change is: relative to the value of now, for shares the difference, 1 for a word."""
        if isinstance(value, str):
            return 1.0
        return abs(value - self.now) / (1 if isinstance(value, float) else max(1, self.now))


MEMORY = "accelerator.deviceMemory"


def levers(inputs: ForecastInputs, shape: ModelShape) -> tuple[Lever, ...]:
    """All settings that can be turned in this deployment."""
    return (*_limit_levers(inputs), *_share_levers(inputs), *_memory_levers(inputs), _tensor(inputs, shape))


def _limit_levers(inputs: ForecastInputs) -> tuple[Lever, ...]:
    limits = inputs.limits
    block, length, tokens = limits.block_size, limits.max_model_len, limits.max_num_batched_tokens
    return (
        Lever(
            "lower",
            "engine.maxNumSeqs",
            limits.max_num_seqs,
            range(limits.max_num_seqs - 1, max(1, limits.max_num_prefill_seqs) - 1, -1),
            lambda inputs, value: _limited(inputs, max_num_seqs=value),
        ),
        Lever("lower", "model.maxModelLen", length, range(_below(length, block), 0, -block), _set_length),
        Lever(
            "lower",
            "engine.maxNumBatchedTokens",
            tokens,
            range(_below(tokens, block), 0, -block),
            lambda inputs, value: _limited(inputs, max_num_batched_tokens=value),
        ),
    )


def _share_levers(inputs: ForecastInputs) -> tuple[Lever, ...]:
    share, utilization = inputs.warmup.graph_memory_share, inputs.utilization
    return (
        Lever("raise", "warmup.graphMemoryShare", share, _percents_above(share), _set_share),
        Lever("lower", "warmup.graphMemoryShare", share, _percents_below(share), _set_share),
        Lever("raise", "engine.deviceMemoryUtilization", utilization, _percents_above(utilization), _set_utilization),
    )


def _memory_levers(inputs: ForecastInputs) -> tuple[Lever, ...]:
    memory = inputs.device_memory
    fp8 = Lever("set", "model.kvCacheDtype", 0, _fp8_values(inputs), _set_cache)
    if memory is None:
        return (fp8,)
    larger = range((memory // GIB + 1) * GIB, MOST_MEMORY + 1, GIB)
    return fp8, Lever("raise", MEMORY, memory, larger, lambda inputs, value: replace(inputs, device_memory=int(value)))


def _tensor(inputs: ForecastInputs, shape: ModelShape) -> Lever:
    now = inputs.parallelism.tensor
    possible = [
        ranks
        for ranks in TENSOR_RANKS
        if ranks > now and ranks % now == 0 and all(layer.attention.heads % ranks == 0 for layer in set(shape.layers))
    ]
    return Lever("raise", "parallelism.tensor", now, possible, _set_tensor)


def _below(number: int, step: int) -> int:
    """The largest multiple of `step` below `number`."""
    return (number - 1) // step * step


def _percents_above(share: float) -> list[Value]:
    return [percent / 100 for percent in range(int(share * 100 + 1e-9) + 1, MOST_SHARE + 1)]


def _percents_below(share: float) -> list[Value]:
    return [percent / 100 for percent in range(-int(-share * 100 + 1e-9) - 1, -1, -1)]


def _fp8_values(inputs: ForecastInputs) -> list[Value]:
    return [KvCacheDtype.FP8.value] if inputs.kv_cache_dtype is KvCacheDtype.AUTO else []


def _limited(inputs: ForecastInputs, **limits: Value) -> ForecastInputs:
    return replace(inputs, limits=inputs.limits.model_copy(update=limits))


def _set_length(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    """A maxNumBatchedTokens that was left out is the model length, so it goes with it."""
    tokens = value if inputs.tokens_follow_length else inputs.limits.max_num_batched_tokens
    return _limited(inputs, max_model_len=value, max_num_batched_tokens=tokens)


def _set_share(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    return replace(inputs, warmup=inputs.warmup.model_copy(update={"graph_memory_share": value}))


def _set_utilization(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    return replace(inputs, utilization=float(value))


def _set_cache(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    return replace(inputs, kv_cache_dtype=KvCacheDtype(str(value)))


def _set_tensor(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    return replace(inputs, parallelism=inputs.parallelism.model_copy(update={"tensor": value}))
