"""The status after the API server refused a request, shown on the resource."""

from dataclasses import replace
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Decision, Event
from gaudi_operator.core.status.conditions import conditions_from
from gaudi_operator.core.status.verdict import FALSE, TRUE, Verdict
from gaudi_runtime.errors import Problem


def with_refusal(decision: Decision, before: GaudiInferenceStatus, refusal: Problem, now: datetime) -> Decision:
    """Return the decision with a status that shows the refusal, and with an event the first time.

    `before` is the written status.
    """
    verdicts = (
        ("Ready", Verdict(FALSE, refusal.reason, refusal.message)),
        ("Reconciling", Verdict(FALSE, "Stalled", "A request was refused; the condition Stalled says why.")),
        ("Stalled", Verdict(TRUE, refusal.reason, refusal.message)),
    )
    judged = conditions_from(verdicts, before.conditions, decision.status.observed_generation, now)
    replaced = {each.type for each in judged}
    others = (each for each in decision.status.conditions if each.type not in replaced)
    status = decision.status.model_copy(update={"phase": "Stalled", "conditions": (*judged, *others)})
    # Reconciles meet the same refusal every few seconds.
    known = any(each.type == "Stalled" and each.reason == refusal.reason for each in before.conditions)
    news = () if known else (Event("Warning", refusal.reason, refusal.message),)
    return replace(decision, status=status, events=(*decision.events, *news))
