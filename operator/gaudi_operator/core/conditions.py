"""The conditions of a resource: one table, one judgement each, as kstatus and `kubectl wait` expect them.

docs/conditions.md lists all of them with their reasons.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus
from gaudi_operator.core.autoscaling_condition import judge_autoscaler_active
from gaudi_operator.core.plan_conditions import judge_bucket_coverage, judge_plan_accepted, judge_settings_effective
from gaudi_operator.core.rollout_conditions import judge_ready, judge_reconciling, judge_stalled
from gaudi_operator.core.serving_conditions import judge_available, judge_degraded, judge_warmed_up
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.timestamp import timestamp
from gaudi_operator.core.verdict import FALSE, TRUE, Verdict

MAX_MESSAGE = 2048


@dataclass(frozen=True)
class ConditionKind:
    """A row of the table; `good` is the status that asks for nobody. A judgement of None leaves the condition out."""

    type: str
    good: ConditionStatus
    meaning: str
    judge: Callable[[Situation], Verdict | None]


CONDITIONS = (
    ConditionKind("Ready", TRUE, "The spec is fully rolled out, and every wished replica takes traffic.", judge_ready),
    ConditionKind("Reconciling", FALSE, "The operator is on its way to what is wished.", judge_reconciling),
    ConditionKind("Stalled", FALSE, "Nothing moves on until a person acts.", judge_stalled),
    ConditionKind(
        "Available", TRUE, "At least the promised number of pods takes traffic, of any revision.", judge_available
    ),
    ConditionKind(
        "WarmedUp", TRUE, "Every wished replica of the current revision has passed its gate.", judge_warmed_up
    ),
    ConditionKind(
        "PlanAccepted", TRUE, "The spec can work, as far as can be known before a pod runs.", judge_plan_accepted
    ),
    ConditionKind(
        "Degraded", FALSE, "Replicas that have served are missing, or serve below the thresholds.", judge_degraded
    ),
    ConditionKind(
        "BucketCoverage",
        TRUE,
        "Every admissible batch has a bucket, and every request so far met a warm graph.",
        judge_bucket_coverage,
    ),
    ConditionKind("SettingsEffective", TRUE, "Every setting of the spec has an effect.", judge_settings_effective),
    ConditionKind(
        "AutoscalerActive",
        TRUE,
        "The autoscaler counts requests and may scale. Only there with spec.autoscaling.",
        judge_autoscaler_active,
    ),
)


def judge_conditions(situation: Situation) -> tuple[Condition, ...]:
    """All conditions; a transition time moves only when the status does."""
    judged = ((kind.type, kind.judge(situation)) for kind in CONDITIONS)
    verdicts = [(kind, verdict) for kind, verdict in judged if verdict is not None]
    return conditions_from(
        verdicts, situation.before.conditions, situation.inference.identity.generation, situation.now
    )


def conditions_from(
    verdicts: Iterable[tuple[str, Verdict]], before: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions of `verdicts`, with the transition times of those `before` that have the same status."""
    times = {(each.type, each.status): each.last_transition_time for each in before}
    return tuple(
        Condition(
            type=kind,
            status=verdict.status,
            reason=verdict.reason,
            message=verdict.message[:MAX_MESSAGE],
            last_transition_time=times.get((kind, verdict.status), timestamp(now)),
            observed_generation=generation,
        )
        for kind, verdict in verdicts
    )
