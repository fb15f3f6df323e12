"""What the plan of a spec takes, and the conditions that judge the plan and the settings (docs/conditions.md).

status.plan is measured by a pod of the current revision, and estimated until one has; the sentence of PlanAccepted says
what the plan takes and where the figures come from.
"""

from collections.abc import Iterable
from typing import Any

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import CapturedPercent, PlanBasis, PlanState
from gaudi_operator.api.v1alpha1.warmup import OnRecompiles
from gaudi_operator.core.admission.checks import why_settings_are_ignored
from gaudi_operator.core.admission.estimate import Estimate, Fitting, why_unknown
from gaudi_operator.core.admission.review import Outlook, doubt, hints, outlook
from gaudi_operator.core.notation import DONE, captured_percent
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.status.cold_shapes import suggestion
from gaudi_operator.core.status.recipes import why_missed
from gaudi_operator.core.status.situation import FALSE, TRUE, UNKNOWN, Situation, Verdict
from gaudi_runtime.contract.report import WarmupReport, percent
from gaudi_runtime.units import size


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
    """What the status says already, if it was measured for the revision that is still desired."""
    before = situation.before
    if before.plan is None or before.plan.basis not in _FOUND or before.revision.current != situation.current:
        return None
    return before.plan


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
    return f"{buckets} {what}{_captured_words(state)}, {_amounts(state)}: {_origin(state)}."


def _captured_words(state: PlanState) -> str:
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


CHANGE_BUCKETS = "Change spec.bucketing so that buckets hold them."


def judge_plan_accepted(s: Situation) -> Verdict:
    """Whether the spec can work at all, as far as can be known before a pod runs."""
    if s.violation:
        return Verdict(FALSE, s.violation.reason, s.violation.message)
    state = plan_state(s)
    assert state is not None  # noqa: S101 - an impossible plan is a violation
    against = doubt(s.inference) if state.basis is PlanBasis.ESTIMATED else None
    reason = "Accepted" if against is None else "AcceptedInDoubt"
    sentences = (plan_sentence(state), against, *hints(s.inference.spec))
    return Verdict(TRUE, reason, " ".join(each for each in sentences if each))


def judge_bucket_coverage(s: Situation) -> Verdict:
    """Whether every batch that the limits admit has a bucket, and every request so far met a warm graph."""
    reports = [pod.report for pod in s.serving if pod.report]
    if s.inference.spec.readiness.on_recompiles is not OnRecompiles.IGNORE and _met_cold(reports):
        found = "Requests met shapes without a warm graph: status.recompiles lists them."
        return Verdict(FALSE, "ColdShapes", f"{found} {suggestion(s) or CHANGE_BUCKETS}")
    if s.outlook is None:
        return Verdict(UNKNOWN, "NothingKnown", "No plan is possible; the condition PlanAccepted says why.")
    if gaps := _gaps(s, s.outlook):
        return Verdict(
            FALSE,
            "BucketsMissing",
            f"{gaps}. Such a batch waits for a compile; change spec.bucketing or the limits of spec.engine.",
        )
    if not reports:
        return Verdict(UNKNOWN, "NothingKnown", "Every admissible batch has a bucket; no serving pod has reported yet.")
    if _met_cold(reports):
        return Verdict(
            TRUE, "Covered", "Every admissible batch has a bucket; readiness.onRecompiles ignores cold graphs."
        )
    return Verdict(TRUE, "Covered", "Every admissible batch has a bucket, and every request so far met a warm graph.")


def _met_cold(reports: Iterable[WarmupReport]) -> bool:
    return any(report.recompiles_since_ready or report.cold_shapes for report in reports)


def _gaps(s: Situation, unmeasured: Outlook) -> str | None:
    """What the plan leaves without a bucket, for the KV blocks that were measured if any were."""
    return (outlook(s.inference, known_blocks(s)) or unmeasured).uncovered.sentence()


def judge_settings_effective(s: Situation) -> Verdict:
    """Whether every setting of the spec has an effect."""
    ignored = why_settings_are_ignored(s.inference)
    if ignored:
        return Verdict(FALSE, "SettingsIgnored", ignored)
    if missed := why_missed(s):
        return Verdict(FALSE, "SettingsIgnored", f"spec.recipeCache.enabled has no effect: {missed}")
    return Verdict(TRUE, "SettingsRead", "Every setting of the spec has an effect.")
