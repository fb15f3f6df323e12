"""The table of all conditions: their types, their meanings, and the functions that judge them."""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.status import (
    Condition,
    ConditionStatus,
)
from gaudi_operator.core.problems.resolution import RESOLVED_BY_OTHERS
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.conditions import (
    FALSE,
    TRUE,
    Verdict,
    build_conditions,
    judge_autoscaler_active,
    judge_available,
    judge_degraded,
    judge_ready,
    judge_reconciling,
    judge_stalled,
    judge_warmed_up,
)
from gaudi_operator.core.status.spec_conditions import (
    judge_spec_bucket_coverage,
    judge_spec_class_applied,
    judge_spec_plan_accepted,
    judge_spec_replicas_limited,
    judge_spec_settings_effective,
)


@dataclass(frozen=True)
class ConditionTableRow:
    """One row of the table of conditions.

    `good_status` is the status that needs no action. If `judge` returns None, the resource does not have the condition.
    If `judges_spec` is True, the condition keeps its written state while the spec cannot be read.
    """

    type: str
    good_status: ConditionStatus
    meaning: str
    judge: Callable[[State], Verdict | None]
    judges_spec: bool = False


CONDITIONS = (
    ConditionTableRow(
        "Ready", TRUE, "The spec is fully rolled out, and every desired replica takes traffic.", judge_ready
    ),
    ConditionTableRow("Reconciling", FALSE, "The operator is working towards the desired state.", judge_reconciling),
    ConditionTableRow("Stalled", FALSE, "A user must act before the operator can continue.", judge_stalled),
    ConditionTableRow(
        "Available",
        TRUE,
        "At least one pod, and at least replicas - maxUnavailable pods, of any revision receive traffic.",
        judge_available,
    ),
    ConditionTableRow(
        "WarmedUp", TRUE, "Every desired replica of the current revision has an open readiness gate.", judge_warmed_up
    ),
    ConditionTableRow(
        "PlanAccepted",
        TRUE,
        "The checks before the first pod found no fault, and pods captured enough graphs.",
        judge_spec_plan_accepted,
    ),
    ConditionTableRow(
        "Degraded", FALSE, "Replicas that took traffic are lost, or serve below the thresholds.", judge_degraded
    ),
    ConditionTableRow(
        "BucketCoverage",
        TRUE,
        "Every admissible batch has a bucket, and no request so far waited for a compile.",
        judge_spec_bucket_coverage,
        judges_spec=True,
    ),
    ConditionTableRow(
        "SettingsEffective",
        TRUE,
        "Every setting of the spec has an effect.",
        judge_spec_settings_effective,
        judges_spec=True,
    ),
    ConditionTableRow(
        "ClassApplied",
        TRUE,
        "The current revision has the current defaults of its class, and exceeds no limit of a class that only warns. "
        "Absent without a class.",
        judge_spec_class_applied,
        judges_spec=True,
    ),
    ConditionTableRow(
        "ReplicasLimited",
        FALSE,
        "The spec requests more replicas than its class allows. Absent without a limit of replicas or cards.",
        judge_spec_replicas_limited,
        judges_spec=True,
    ),
    ConditionTableRow(
        "AutoscalerActive",
        TRUE,
        "The autoscaler reads its metrics and can scale. Absent without spec.autoscaling.",
        judge_autoscaler_active,
        judges_spec=True,
    ),
)

CONDITION_REASONS = RESOLVED_BY_OTHERS | frozenset(
    {
        # Progress: Ready, Reconciling, Available and WarmedUp
        *("Serving", "ScaledToZero", "StartingPods", "WarmingUp", "RollingOut", "RollingBack", "ScalingDown"),
        *("RolloutPaused", "Reconciled", "Stalled", "NotStalled", "MinimumAvailable", "BelowMinimum"),
        *("WarmedUp", "NoPodWarmingUp"),
        # Specs that are refused before a pod runs
        *("PlanImpossible", "BucketsMissing", "SettingsWrong", "MemoryTooSmall", "NoRuntimeImage", "NotBuilt"),
        *("PublishedWithoutKey", "NeedsClass", "ForbiddenByClass", "ClassAmbiguous"),
        *("ClassRequired", "ClassUnreadable", "SpecUnreadable", "PodNotAllowed", "HostPathNotAllowed"),
        "SimulationNotAllowed",
        # Pods and revisions that fail
        *("InvalidImageName", "InitContainerFails", "SidecarFails", "CrashLoopBackOff", "HostOutOfMemory"),
        *("CompileCrashed", "ModelNotFound", "ModelUnreadable", "UnsupportedModel", "ModelAccessDenied"),
        *("EngineUnsupported", "ThresholdsUnreachable", "ConfigInvalid", "StartFailed", "ApiKeyBlank"),
        *("CertificateUnusable", "WarmupStalled", "WarmupIncomplete", "CapturedBelowThreshold", "TooManyRecompiles"),
        *("TooManyErrors", "ForecastMissed", "RolledBack", "RevisionFailed"),
        # Requests that the API server refuses
        *("ApiForbidden", "ApiRefused", "NameTaken"),
        # The other conditions
        *("Accepted", "ReplicasLost", "BelowThresholds", "AsExpected", "Covered", "NoReports", "ColdShapes"),
        *("SamplerCompiled", "StepCompiled", "SettingsRead", "SettingsIgnored", "AsClassSays", "PlanNotAccepted"),
        *("ClassChanged", "ClassWouldRefuse", "ScalingActive", "NotObservedYet"),
    }
)
"""The reasons that this operator writes into conditions, without the reasons of pods and autoscalers.

Metrics use only these reasons as label values, because a pod may report any reason.
"""


def judge_condition_table(state: State) -> tuple[Condition, ...]:
    """Return the conditions of all rows of the table. A transition time changes only if the status changes."""
    previous = state.previous_status.conditions
    written = {condition.type: Verdict(condition.status, condition.reason, condition.message) for condition in previous}
    judgements = (
        (kind.type, written.get(kind.type) if kind.judges_spec and state.inference.unreadable else kind.judge(state))
        for kind in CONDITIONS
    )
    verdicts = [(kind, verdict) for kind, verdict in judgements if verdict is not None]
    return build_conditions(verdicts, previous, state.inference.identity.generation, state.deadlines.now)
