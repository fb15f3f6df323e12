"""The plan in the status (status.plan): the figures that a pod of the current revision has reported.

Before the first report there are no figures. spec_conditions.py judges the plan.
"""

from gaudi_operator.api.v1alpha1.status import CapturedPercent, PlanBasis, PlanState
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.pods.pod_progress import WARMED_UP_PHASES, captured_percent
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rendering.execution_mode import preparation
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import MemorySplit, PlanGaps, WarmupReport
from gaudi_runtime.units import format_bytes, plural

REPORTED_LATER = (
    "The first pod reports the figures of the plan. To estimate them before, run `gaudi-plan forecast --from-cluster"
)


def plan_state(state: State) -> PlanState | None:
    """Return the reported figures of the plan, or None before the first report.

    The figures stay until another pod has reported. If no pod runs the spec, there are no figures. This is the case if
    the spec was refused or rolled back. If the spec cannot be read, the written figures stay.
    """
    if state.inference.unreadable:
        return state.previous_status.plan
    choice = state.rollout.choice
    if state.violation is not None or (choice is not None and choice.is_rolled_back):
        return None
    return _reported_plan(state) or _written_plan(state)


def _reported_plan(state: State) -> PlanState | None:
    """Return the plan of the warmed-up pod with the fewest captured graphs, or else of a pod that still warms up."""
    plans = [
        (report.phase not in WARMED_UP_PHASES, report.prompt.captured + report.decode.captured, pod.name, plan)
        for pod in state.updated_pods
        if (report := pod.report) and (plan := _plan_of_report(state, pod, report))
    ]
    return min(plans, key=lambda entry: entry[:3])[3] if plans else None


def _plan_of_report(state: State, pod: PodView, report: WarmupReport) -> PlanState | None:
    """Return the plan in a report, with its costs if the pod is warmed up, or None before the pod has a plan."""
    gaps, memory = report.gaps, report.memory
    if gaps is None or memory is None:
        return None
    plan = _counted_plan(state, pod, report, gaps, memory)
    if report.phase not in WARMED_UP_PHASES:
        return plan
    return plan.model_copy(
        update={
            "graph_bytes": (report.prompt.graph_bytes + report.decode.graph_bytes) or None,
            "warmup_seconds": round(report.elapsed_seconds),
            "captured_percent": CapturedPercent(
                prompt=captured_percent(report.prompt), decode=captured_percent(report.decode)
            ),
        }
    )


def _counted_plan(state: State, pod: PodView, report: WarmupReport, gaps: PlanGaps, memory: MemorySplit) -> PlanState:
    block_size = memory.block_size
    return PlanState(
        basis=PlanBasis.SIMULATED if report.simulated else PlanBasis.MEASURED,
        prompt_buckets=report.prompt.planned,
        decode_buckets=report.decode.planned,
        vision_buckets=report.vision.planned if report.vision else None,
        kv_blocks=memory.kv_blocks,
        block_size=block_size if block_size != state.inference.spec.engine.block_size else None,
        prompt_gaps=gaps.prompt,
        decode_gaps=gaps.decode,
        source=f"pod {pod.name}",
    )


def _written_plan(state: State) -> PlanState | None:
    """Return the plan from the written status if a pod of the current revision reported it, otherwise None."""
    previous_status = state.previous_status
    return previous_status.plan if previous_status.revision.current == state.current_name else None


def describe_plan(plan: PlanState | None, inference: Inference) -> str:
    """Return a sentence with the bucket counts, bytes and seconds of a plan, or about the time of the first report."""
    if plan is None:
        return f"{REPORTED_LATER} {inference.identity.name}`."
    noun, outcome = preparation(inference).words
    vision_clause = f" and {plural(plan.vision_buckets, 'vision bucket')}" if plan.vision_buckets else ""
    counts = f"{plan.prompt_buckets} prompt and {plan.decode_buckets} decode {noun}"
    if plan.warmup_seconds is None:
        return f"{counts}{vision_clause} are planned for {plan.kv_blocks} KV blocks, reported by {plan.source}."
    memory = "" if plan.graph_bytes is None else f"{format_bytes(plan.graph_bytes)}, "
    cost = f"{memory}{plan.warmup_seconds} s from start to serving"
    origin = "simulated" if plan.basis is PlanBasis.SIMULATED else "measured"
    percents = ((plan.captured_percent.prompt, "prompt"), (plan.captured_percent.decode, "decode"))
    shortfalls = [f"{percent} % of {phase}" for percent, phase in percents if percent is not None and percent < 100]
    share = f" ({' and '.join(shortfalls)} {noun} are {outcome})" if shortfalls else ""
    return f"{counts}{share}{vision_clause}, {cost}: {origin} by {plan.source}."
