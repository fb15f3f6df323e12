"""The conditions about the plan and the settings of a spec: PlanAccepted, BucketCoverage and others.

See docs/reference/conditions.md. The message of PlanAccepted contains the reported costs of the plan.
"""

from collections.abc import Iterable

from gaudi_operator.api.v1alpha1.status import ConditionStatus, PlanState
from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Shortfall
from gaudi_operator.core.admission.engine_settings import why_settings_are_ignored
from gaudi_operator.core.admission.hints import plan_hints
from gaudi_operator.core.gate.recompiles import ADD_SIZES, has_only_vision_recompiles
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.rendering.execution_mode import captures_graphs, preparation
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.cold_shapes import describe_cold_shapes
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict
from gaudi_operator.core.status.plan import describe_plan
from gaudi_operator.core.status.recipes import recipe_miss_reason
from gaudi_operator.core.status.step_compiles import describe_step_compiles, step_compiles
from gaudi_runtime.contract.compiles import StepPart
from gaudi_runtime.contract.report import WarmupReport

CHANGE_BUCKETS = "Add buckets for these shapes to spec.bucketing."


def _advise_on_cold_shapes(reports: Iterable[WarmupReport]) -> str:
    return ADD_SIZES if any(map(has_only_vision_recompiles, reports)) else CHANGE_BUCKETS


def judge_plan_accepted(state: State) -> Verdict:
    """Judge the condition PlanAccepted: the spec is accepted, and its pods captured enough graphs."""
    if state.violation:
        return Verdict(FALSE, state.violation.reason, state.violation.message)
    status, reason, shortfall = _judge_captured(state.plan, state.inference) if state.plan else (TRUE, "Accepted", None)
    sentences = (describe_plan(state.plan, state.inference), shortfall, *plan_hints(state.inference))
    return Verdict(status, reason, " ".join(sentence for sentence in sentences if sentence))


def _judge_captured(plan: PlanState, inference: Inference) -> tuple[ConditionStatus, str, str | None]:
    """Return (status, reason, sentence) of a reported plan. The sentence reports missed thresholds, or is None."""
    percents, readiness = plan.captured_percent, inference.spec.readiness
    thresholds = (
        ("prompt", percents.prompt, readiness.min_captured_prompt_percent),
        ("decode", percents.decode, readiness.min_captured_decode_percent),
    )
    noun, outcome = preparation(inference).words
    shortfalls = [
        f"{min_percent} % of the {phase} {noun}, but {percent} % were {outcome}"
        for phase, percent, min_percent in thresholds
        if percent is not None and percent < min_percent and captures_graphs(inference)
    ]
    if not shortfalls or readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return TRUE, "Accepted", None
    return FALSE, "CapturedBelowThreshold", f"spec.readiness requires {' and '.join(shortfalls)}."


def judge_bucket_coverage(state: State) -> Verdict:
    """Judge the condition BucketCoverage: every batch has a bucket, and no request waited for a compile."""
    reports = [pod.report for pod in state.serving_pods if pod.report]
    if state.inference.spec.readiness.on_recompiles is not OnRecompiles.IGNORE:
        if any(map(_has_cold_shapes, reports)):
            message = "Requests had shapes without a warm graph. status.recompiles lists these shapes."
            remedy = describe_cold_shapes(reports, state.inference.identity.name) or _advise_on_cold_shapes(reports)
            return Verdict(FALSE, "ColdShapes", f"{message} {remedy}")
        if steps := [step for report in reports for step in step_compiles(report)]:
            compiled_sampler = any(step.part is StepPart.SAMPLER for step in steps)
            reason = "SamplerCompiled" if compiled_sampler else "StepCompiled"
            return Verdict(FALSE, reason, describe_step_compiles(steps))
    if not reports:
        return Verdict(UNKNOWN, "NoReports", "No serving pod has reported yet.")
    if gaps := next((report.gaps.message for report in reports if report.gaps and report.gaps.message), None):
        return Verdict(
            FALSE,
            "BucketsMissing",
            f"{gaps}. Such a batch waits for a compile. Change spec.bucketing or the limits in spec.engine.",
        )
    if _has_cold_batches(reports):
        return Verdict(
            TRUE,
            "Covered",
            "Every admissible batch has a bucket. Some requests waited for a compile, but "
            "spec.readiness.onRecompiles is Ignore.",
        )
    return Verdict(TRUE, "Covered", "Every admissible batch has a bucket, and no request so far waited for a compile.")


def _has_cold_batches(reports: Iterable[WarmupReport]) -> bool:
    return any(report.recompiles_since_ready or report.cold_shapes for report in reports)


def _has_cold_shapes(report: WarmupReport) -> bool:
    return bool(report.cold_shapes) or report.recompiles_since_ready > sum(step.count for step in step_compiles(report))


def judge_settings_effective(state: State) -> Verdict:
    """Judge the condition SettingsEffective: every setting of the spec has an effect."""
    message = why_settings_are_ignored(state.inference)
    if message:
        return Verdict(FALSE, "SettingsIgnored", message)
    if miss_reason := recipe_miss_reason(state):
        return Verdict(FALSE, "SettingsIgnored", f"spec.recipeCache has no effect: {miss_reason}")
    return Verdict(TRUE, "SettingsRead", "Every setting of the spec has an effect.")
