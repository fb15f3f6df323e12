"""The conditions that judge the plan and the settings of a spec (docs/conditions.md)."""

from collections.abc import Iterable

from gaudi_operator.api.v1alpha1.status import PlanBasis
from gaudi_operator.api.v1alpha1.warmup import OnRecompiles
from gaudi_operator.core.doubts import doubt
from gaudi_operator.core.hints import hints
from gaudi_operator.core.missing_bucket import suggestion
from gaudi_operator.core.outlook import Outlook, outlook
from gaudi_operator.core.plan_sentence import plan_sentence
from gaudi_operator.core.plan_state import known_blocks, plan_state
from gaudi_operator.core.recipes import why_missed
from gaudi_operator.core.settings_check import why_settings_are_ignored
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.verdict import FALSE, TRUE, UNKNOWN, Verdict
from gaudi_runtime.contract.report import WarmupReport

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
