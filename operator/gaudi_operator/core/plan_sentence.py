"""The sentence of PlanAccepted: what the plan takes, and where the figures come from."""

from gaudi_operator.api.v1alpha1.status import PlanBasis, PlanState
from gaudi_runtime.units import size


def plan_sentence(state: PlanState) -> str:
    """Counts, bytes and seconds of a plan as its basis knows them."""
    buckets = f"{state.prompt_buckets} prompt and {state.decode_buckets} decode"
    if state.basis is PlanBasis.COUNTED:
        return (
            f"{buckets} buckets are planned for {state.kv_blocks} KV blocks. What they take in memory and time is "
            f"not known before the first pod has measured it: {state.source}."
        )
    fitting = state.captured_percent
    what = "buckets" if fitting.prompt is None and fitting.decode is None else "graphs"
    return f"{buckets} {what}{_captured(state)}, {_amounts(state)}: {_origin(state)}."


def _captured(state: PlanState) -> str:
    fitting = ((state.captured_percent.prompt, "prompt"), (state.captured_percent.decode, "decode"))
    short = [f"{percent} % of {phase}" for percent, phase in fitting if percent is not None and percent < 100]
    return f" ({' and '.join(short)} graphs fit)" if short else ""


def _amounts(state: PlanState) -> str:
    estimated = state.basis is PlanBasis.ESTIMATED
    about, span = ("about ", "of warm-up") if estimated else ("", "from start to serving")
    memory = None if state.graph_bytes is None else f"{about}{size(state.graph_bytes)}"
    time = None if state.warmup_seconds is None else f"{about}{state.warmup_seconds} s {span}"
    return ", ".join(part for part in (memory, time) if part)


def _origin(state: PlanState) -> str:
    match state.basis:
        case PlanBasis.ESTIMATED:
            return f"an estimate from {state.source}"
        case PlanBasis.SIMULATED:
            return f"simulated by {state.source}"
        case _:
            return f"measured by {state.source}"
