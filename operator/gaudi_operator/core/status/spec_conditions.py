"""The conditions about the spec of a resource: its plan, its settings and its class.

See docs/reference/conditions.md and docs/how-to/classes.md. The message of PlanAccepted contains the reported costs of
the plan.
"""

from collections.abc import Iterable

from gaudi_operator.api.v1alpha1.status import ConditionStatus, PlanState
from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Shortfall
from gaudi_operator.core.admission.engine_settings import engine_settings_hints, why_engine_settings_are_ignored
from gaudi_operator.core.admission.pod_policy import policy_limit_violations, render_for_policy
from gaudi_operator.core.children.child_actions import limited_children
from gaudi_operator.core.classes import fill_class_defaults
from gaudi_operator.core.gate.judgement import ADD_SIZES, has_only_vision_recompiles
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.rendering.runtime_config import captures_graphs, runtime_config_preparation
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.rollout.workload_replicas import describe_excess_replicas
from gaudi_operator.core.status.cold_shapes import describe_cold_shapes
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict
from gaudi_operator.core.status.step_compiles import describe_step_compiles, step_compiles
from gaudi_operator.core.status.warmup_figures import describe_warmup_plan, warmup_recipe_miss_reason
from gaudi_runtime.contract.compiles import StepPart
from gaudi_runtime.contract.report import WarmupReport


def judge_spec_class_applied(state: State) -> Verdict | None:
    """Judge the condition ClassApplied: the revision has the current defaults of its class and meets its limits.

    Limits are reported here only if the class warns. Otherwise the condition PlanAccepted reports them.
    """
    revision = state.rollout.current
    if state.platform.spec is None and (revision is None or revision.class_defaults is None):
        return None
    if state.violation or revision is None:
        return Verdict(UNKNOWN, "PlanNotAccepted", "The class is applied after the condition PlanAccepted is True.")
    if problem := state.forbidden.get(revision.name):
        return Verdict(FALSE, problem.reason, problem.message)
    changed_defaults = _describe_changed_defaults(state, revision)
    if violations := _reported_violations(state, revision):
        refusal = (
            f"Class {state.platform.name} has enforcement: Warn. With Enforce, the class does not allow: "
            f"{'; '.join(violations)}. Change the resource, use another class, or change the limits of the class."
        )
        return Verdict(FALSE, "ClassWouldRefuse", f"{refusal} {changed_defaults}" if changed_defaults else refusal)
    if changed_defaults:
        return Verdict(FALSE, "ClassChanged", changed_defaults)
    return Verdict(
        TRUE, "AsClassSays", f"Revision {revision.name} has the current defaults of class {state.platform.name}."
    )


def _reported_violations(state: State, revision: Revision) -> list[str]:
    """Return what a class that only warns would refuse or limit. Return no violations of any other class."""
    if not state.platform.only_warns:
        return []
    inference, limits = state.inference, state.platform.limits
    rendered = render_for_policy(inference, revision, limited_children(inference, state.defaults))
    excess = describe_excess_replicas(inference, limits, revision)
    return [
        *(violation.message for violation in policy_limit_violations(rendered, limits)),
        *([excess] if excess else []),
    ]


def judge_spec_replicas_limited(state: State) -> Verdict | None:
    """Judge the condition ReplicasLimited: the spec requests more replicas than its class allows."""
    limits, excess = state.platform.enforced_limits, state.rollout.excess
    if state.rollout.current is None or (limits.max_replicas is None and limits.max_cards is None):
        return None
    if excess is None:
        return Verdict(FALSE, "WithinLimits", "The class allows all requested replicas.")
    return Verdict(
        TRUE,
        "LimitedByClass",
        f"{excess}, a limit of class {state.platform.name}. The operator runs {state.desired_replicas} replicas. Lower "
        "the field, or use another class.",
    )


def _describe_changed_defaults(state: State, revision: Revision) -> str | None:
    """Return a sentence about class defaults that a new revision would change, or None if there are none."""
    applied = revision.class_defaults
    before = applied.values if applied else {}
    now = fill_class_defaults(state.inference, state.platform, state.defaults).values
    paths = sorted(path for path in {**before, **now} if before.get(path) != now.get(path))
    if not paths:
        return None
    subject = f"Class {state.platform.name}" if state.platform.name else "The removal of the class"
    identity = state.inference.identity
    return (
        f"{subject} would now change {', '.join(paths)}, but revision {revision.name} "
        f"keeps its values. To apply the change, run: kubectl gaudi rollout restart {identity.name} -n "
        f"{identity.namespace}"
    )


CHANGE_BUCKETS = "Add buckets for these shapes to spec.bucketing."


def _advise_on_cold_shapes(reports: Iterable[WarmupReport]) -> str:
    return ADD_SIZES if any(map(has_only_vision_recompiles, reports)) else CHANGE_BUCKETS


def judge_spec_plan_accepted(state: State) -> Verdict:
    """Judge the condition PlanAccepted: the spec is accepted, and its pods captured enough graphs."""
    if state.violation:
        return Verdict(FALSE, state.violation.reason, state.violation.message)
    status, reason, shortfall = _judge_captured(state.plan, state.inference) if state.plan else (TRUE, "Accepted", None)
    sentences = (describe_warmup_plan(state.plan, state.inference), shortfall, *engine_settings_hints(state.inference))
    return Verdict(status, reason, " ".join(sentence for sentence in sentences if sentence))


def _judge_captured(plan: PlanState, inference: Inference) -> tuple[ConditionStatus, str, str | None]:
    """Return (status, reason, sentence) of a reported plan. The sentence reports missed thresholds, or is None."""
    percents, readiness = plan.captured_percent, inference.spec.readiness
    thresholds = (
        ("prompt", percents.prompt, readiness.min_captured_prompt_percent),
        ("decode", percents.decode, readiness.min_captured_decode_percent),
    )
    noun, outcome = runtime_config_preparation(inference).words
    shortfalls = [
        f"{min_percent} % of the {phase} {noun}, but {percent} % were {outcome}"
        for phase, percent, min_percent in thresholds
        if percent is not None and percent < min_percent and captures_graphs(inference)
    ]
    if not shortfalls or readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return TRUE, "Accepted", None
    return FALSE, "CapturedBelowThreshold", f"spec.readiness requires {' and '.join(shortfalls)}."


def judge_spec_bucket_coverage(state: State) -> Verdict:
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


def judge_spec_settings_effective(state: State) -> Verdict:
    """Judge the condition SettingsEffective: every setting of the spec has an effect."""
    message = why_engine_settings_are_ignored(state.inference)
    if message:
        return Verdict(FALSE, "SettingsIgnored", message)
    if miss_reason := warmup_recipe_miss_reason(state):
        return Verdict(FALSE, "SettingsIgnored", f"spec.recipeCache has no effect: {miss_reason}")
    return Verdict(TRUE, "SettingsRead", "Every setting of the spec has an effect.")
