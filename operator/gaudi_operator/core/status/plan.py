"""The plan in the status (status.plan): the best known figures of the plan, and a sentence about them.

Figures are estimated until a pod of the current revision has measured the plan. spec_conditions.py judges the plan.
"""

from typing import Any

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import MEASURED_BASES, CapturedPercent, PlanBasis, PlanState
from gaudi_operator.core.admission.estimate import Estimate, GraphBounds, why_not_estimated
from gaudi_operator.core.admission.spec_forecast import PlanForecast, forecast_plan
from gaudi_operator.core.pods.progress import WARMED_UP_PHASES, captured_percent
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rendering.execution_mode import execution_mode
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.plan_advice import plan_advice
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import WarmupReport, percent
from gaudi_runtime.units import format_bytes, plural


def plan_state(state: State) -> PlanState | None:
    """Return the best known figures of the plan, or None if no plan is possible.

    Measured figures stay until another pod has measured the plan. If no pod runs the spec, the figures are estimated.
    This is the case if the spec was refused, rolled back or overridden by a pinned revision. If the spec cannot be
    read, the written figures stay.
    """
    if state.inference.unreadable:
        return state.previous_status.plan
    # Do not show measured figures for a spec that no pod runs.
    if state.violation is None and _runs_spec(state):
        measured_pod = _measured_pod(state)
        if plan := _state_from_report(state, *measured_pod) if measured_pod else _written_measured_plan(state):
            return plan.model_copy(update={"advice": plan_advice(state)})
    forecast = forecast_plan(state.inference)
    return _state_from_forecast(state.inference.spec, forecast) if forecast else None


def _runs_spec(state: State) -> bool:
    """Return True if the current revision runs the spec.

    A revision that was selected by a rollback does not run the spec. A pinned revision runs the spec only if it
    matches.
    """
    choice = state.rollout.choice
    if choice is None or state.inference.spec.rollout.revision is None:
        return choice is None or not choice.is_rolled_back
    return choice.current.matches_spec(state.inference)


def current_forecast(state: State) -> PlanForecast | None:
    """Return the forecast for the figures in status.plan. It uses the measured number of KV blocks, if any.

    This number determines which batches have a bucket.
    """
    plan = state.plan
    measured = plan if plan is not None and plan.basis in MEASURED_BASES else None
    forecast = forecast_plan(state.inference, measured.kv_blocks, measured.block_size) if measured else None
    return forecast or forecast_plan(state.inference)


def _state_from_forecast(spec: GaudiInferenceSpec, forecast: PlanForecast) -> PlanState:
    estimate = forecast.estimate
    figures = {} if estimate is None else _estimated_figures(estimate)
    explanation = {} if figures else {"source": why_not_estimated(spec)}
    return PlanState(
        basis=PlanBasis.ESTIMATED if figures else PlanBasis.COUNTED,
        prompt_buckets=forecast.prompt_buckets,
        decode_buckets=forecast.decode_buckets,
        kv_blocks=forecast.kv_blocks,
        prompt_gaps=forecast.plan_coverage.prompt.gap_count,
        decode_gaps=forecast.plan_coverage.decode.gap_count,
        **figures,
        **explanation,
    )


def _estimated_figures(estimate: Estimate) -> dict[str, Any]:
    """Return the estimated figures of graphs, or no figures if graphs cannot be estimated, as on a CPU."""
    if estimate.warmup_seconds is None:
        return {}
    return {
        "graph_bytes": estimate.graph_bytes,
        "warmup_seconds": estimate.warmup_seconds,
        "captured_percent": CapturedPercent(
            prompt=_fitting_percent(estimate.prompt), decode=_fitting_percent(estimate.decode)
        ),
        "source": estimate.source,
    }


def _fitting_percent(bounds: GraphBounds | None) -> int | None:
    return None if bounds is None else percent(bounds.expected, bounds.planned)


def _measured_pod(state: State) -> tuple[PodView, WarmupReport] | None:
    """Return (pod, report) of the warmed-up pod with the fewest captured graphs, or None."""
    pairs = [(pod, pod.report) for pod in state.updated_pods if pod.report and pod.report.phase in WARMED_UP_PHASES]
    return min(pairs, key=lambda pair: (_count_captured_graphs(pair[1]), pair[0].name), default=None)


def _count_captured_graphs(report: WarmupReport) -> int:
    return report.prompt.captured + report.decode.captured


def _state_from_report(state: State, pod: PodView, report: WarmupReport) -> PlanState | None:
    # Use the real number of KV blocks, because the gaps depend on this number.
    kv_blocks = report.memory.kv_blocks if report.memory else None
    block_size = report.memory.block_size if report.memory else None
    forecast = forecast_plan(state.inference, kv_blocks, block_size) or forecast_plan(state.inference)
    if forecast is None:
        return None
    return PlanState(
        basis=PlanBasis.SIMULATED if report.simulated else PlanBasis.MEASURED,
        prompt_buckets=report.prompt.planned,
        decode_buckets=report.decode.planned,
        vision_buckets=report.vision.planned if report.vision else None,
        kv_blocks=forecast.kv_blocks,
        block_size=block_size if block_size != state.inference.spec.engine.block_size else None,
        graph_bytes=(report.prompt.graph_bytes + report.decode.graph_bytes) or None,
        warmup_seconds=round(report.elapsed_seconds),
        captured_percent=CapturedPercent(
            prompt=captured_percent(report.prompt), decode=captured_percent(report.decode)
        ),
        prompt_gaps=forecast.plan_coverage.prompt.gap_count,
        decode_gaps=forecast.plan_coverage.decode.gap_count,
        source=f"pod {pod.name}",
    )


def _written_measured_plan(state: State) -> PlanState | None:
    """Return the plan from the written status if it was measured for the current revision, otherwise None."""
    plan, revision = state.previous_status.plan, state.previous_status.revision
    if plan is None or plan.basis not in MEASURED_BASES or revision.current != state.current_name:
        return None
    return plan


def describe_plan(plan: PlanState, inference: Inference) -> str:
    """Return a sentence with the bucket counts, bytes and seconds of a plan. Its form depends on the plan's basis."""
    counts = f"{plan.prompt_buckets} prompt and {plan.decode_buckets} decode"
    if plan.basis is PlanBasis.COUNTED:
        return (
            f"{counts} buckets are planned for {plan.kv_blocks} KV blocks. Their memory and warm-up time are unknown "
            f"until the first pod has measured them: {plan.source}."
        )
    unit = "graphs" if execution_mode(inference) is ExecutionMode.HPU_GRAPHS else "buckets"
    vision_clause = f" and {plural(plan.vision_buckets, 'vision bucket')}" if plan.vision_buckets else ""
    captured, cost = _describe_captured_percent(plan, unit), _describe_plan_cost(plan)
    return f"{counts} {unit}{captured}{vision_clause}, {cost}: {_describe_origin(plan)}."


def _describe_captured_percent(plan: PlanState, unit: str) -> str:
    percents = ((plan.captured_percent.prompt, "prompt"), (plan.captured_percent.decode, "decode"))
    shortfalls = [f"{percent} % of {phase}" for percent, phase in percents if percent is not None and percent < 100]
    outcome = "fit" if plan.basis is PlanBasis.ESTIMATED else "are captured" if unit == "graphs" else "are executed"
    return f" ({' and '.join(shortfalls)} {unit} {outcome})" if shortfalls else ""


def _describe_plan_cost(plan: PlanState) -> str:
    is_estimated = plan.basis is PlanBasis.ESTIMATED
    about, span = ("about ", "of warm-up") if is_estimated else ("", "from start to serving")
    memory = None if plan.graph_bytes is None else f"{about}{format_bytes(plan.graph_bytes)}"
    time = None if plan.warmup_seconds is None else f"{about}{plan.warmup_seconds} s {span}"
    return ", ".join(part for part in (memory, time) if part)


def _describe_origin(plan: PlanState) -> str:
    match plan.basis:
        case PlanBasis.ESTIMATED:
            return f"an estimate from {plan.source}"
        case PlanBasis.SIMULATED:
            return f"simulated by {plan.source}"
        case _:
            return f"measured by {plan.source}"
