"""What the plan takes: measured by a pod of the current revision, and estimated until one has (docs/conditions.md)."""

from typing import Any

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import CapturedPercent, PlanBasis, PlanState
from gaudi_operator.core.estimate import Estimate, Fitting
from gaudi_operator.core.outlook import Outlook, outlook
from gaudi_operator.core.percent import DONE, captured_percent
from gaudi_operator.core.pods import PodView
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.subject import why_unknown
from gaudi_runtime.contract.report import WarmupReport, percent


def plan_state(situation: Situation) -> PlanState | None:
    """The surest figures there are; None while no plan of the spec is possible.

    What a pod of the current revision has measured stays until another one has. A spec that is refused, rolled back
    or put aside by a pinned revision has no pods.
    """
    if situation.outlook is None:
        return None
    if situation.violation is not None or not situation.runs_the_spec:
        return _expected(situation.inference.spec, situation.outlook)
    if pod := _measured_pod(situation):
        return _measured(situation, *pod)
    return _written(situation) or _expected(situation.inference.spec, situation.outlook)


def known_blocks(situation: Situation) -> int | None:
    """KV blocks of the plan as measured; None before that."""
    state = plan_state(situation)
    return state.kv_blocks if state is not None and state.basis in _FOUND else None


_FOUND = frozenset({PlanBasis.MEASURED, PlanBasis.SIMULATED})


def _expected(spec: GaudiInferenceSpec, found: Outlook) -> PlanState:
    estimate = found.estimate
    known = {} if estimate is None else _estimated(estimate)
    unknown = {} if known else {"source": why_unknown(spec)}
    return PlanState(
        basis=PlanBasis.ESTIMATED if known else PlanBasis.COUNTED,
        prompt_buckets=found.prompt,
        decode_buckets=found.decode,
        kv_blocks=found.kv_blocks,
        prompt_gaps=found.uncovered.prompt.gap_count,
        decode_gaps=found.uncovered.decode.gap_count,
        **known,
        **unknown,
    )


def _estimated(estimate: Estimate) -> dict[str, Any]:
    """Figures of graphs; nothing where nothing is known of them, as on a CPU."""
    if estimate.warmup_seconds is None:
        return {}
    return {
        "graph_bytes": estimate.graph_bytes,
        "warmup_seconds": estimate.warmup_seconds,
        "captured_percent": CapturedPercent(prompt=_fits(estimate.prompt), decode=_fits(estimate.decode)),
        "source": estimate.source,
    }


def _fits(fitting: Fitting | None) -> int | None:
    return None if fitting is None else percent(fitting.expected, fitting.planned)


def _measured_pod(situation: Situation) -> tuple[PodView, WarmupReport] | None:
    """The pod with the fewest captured graphs of those that have warmed up, with its report."""
    found = [(pod, pod.report) for pod in situation.updated if pod.report and pod.report.phase in DONE]
    return min(found, key=lambda each: (_captured(each[1]), each[0].name), default=None)


def _captured(report: WarmupReport) -> int:
    return report.prompt.captured + report.decode.captured


def _measured(situation: Situation, pod: PodView, report: WarmupReport) -> PlanState:
    blocks = report.memory.kv_blocks if report.memory else None
    found = outlook(situation.inference, blocks) or situation.outlook
    assert found is not None  # noqa: S101 - plan_state() has looked
    return PlanState(
        basis=PlanBasis.SIMULATED if report.simulated else PlanBasis.MEASURED,
        prompt_buckets=report.prompt.planned,
        decode_buckets=report.decode.planned,
        kv_blocks=found.kv_blocks,
        graph_bytes=(report.prompt.graph_bytes + report.decode.graph_bytes) or None,
        warmup_seconds=round(report.elapsed_seconds),
        captured_percent=CapturedPercent(
            prompt=captured_percent(report.prompt), decode=captured_percent(report.decode)
        ),
        prompt_gaps=found.uncovered.prompt.gap_count,
        decode_gaps=found.uncovered.decode.gap_count,
        source=f"pod {pod.name}",
    )


def _written(situation: Situation) -> PlanState | None:
    """What the status says already, if it was measured for the revision that is still wished."""
    before = situation.before
    if before.plan is None or before.plan.basis not in _FOUND or before.revision.current != situation.current:
        return None
    return before.plan
