"""How a request that the API server refuses is shown: Stalled with its reason, and not Ready."""

from dataclasses import replace
from datetime import UTC, datetime

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Event, Plan
from gaudi_operator.core.status.conditions import conditions_from
from gaudi_operator.core.status.situation import FALSE, TRUE, Verdict
from gaudi_operator.errors import Stalled


def with_failure(plan: Plan, shown: GaudiInferenceStatus, error: Stalled) -> Plan:
    """The plan with a status, and an event when it is news, that tell of `error`. `shown` is the status before."""
    verdicts = (
        ("Ready", Verdict(FALSE, error.reason, error.message)),
        ("Reconciling", Verdict(FALSE, "Stalled", "A request was refused; the condition Stalled says why.")),
        ("Stalled", Verdict(TRUE, error.reason, error.message)),
    )
    judged = conditions_from(verdicts, shown.conditions, plan.status.observed_generation, datetime.now(UTC))
    replaced = {each.type for each in judged}
    others = (each for each in plan.status.conditions if each.type not in replaced)
    status = plan.status.model_copy(update={"phase": "Stalled", "conditions": (*judged, *others)})
    known = any(each.type == "Stalled" and each.reason == error.reason for each in shown.conditions)
    news = () if known else (Event("Warning", error.reason, error.message),)
    return replace(plan, status=status, events=(*plan.events, *news))
