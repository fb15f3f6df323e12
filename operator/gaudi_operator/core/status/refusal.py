"""The status of a resource after the API server has refused a request."""

from dataclasses import replace
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import (
    GaudiInferenceStatus,
)
from gaudi_operator.core.actions import Decision, Event
from gaudi_operator.core.status.conditions import (
    FALSE,
    TRUE,
    Verdict,
    build_conditions,
)
from gaudi_runtime.errors import Problem


def add_refusal_to_status(
    decision: Decision, previous: GaudiInferenceStatus, refusal: Problem, now: datetime
) -> Decision:
    """Return the decision with a status that shows the refusal. A new refusal also adds an event.

    `previous` is the written status.
    """
    verdicts = (
        ("Ready", Verdict(FALSE, refusal.reason, refusal.message)),
        (
            "Reconciling",
            Verdict(FALSE, "Stalled", "The API server refused a request. The condition Stalled has the reason."),
        ),
        ("Stalled", Verdict(TRUE, refusal.reason, refusal.message)),
    )
    conditions = build_conditions(verdicts, previous.conditions, decision.status.observed_generation, now)
    replaced_types = {condition.type for condition in conditions}
    other_conditions = (condition for condition in decision.status.conditions if condition.type not in replaced_types)
    status = decision.status.model_copy(update={"conditions": (*conditions, *other_conditions)})
    # Publish the event only once, because the same refusal repeats in every reconcile.
    is_reported = any(
        condition.type == "Stalled" and condition.reason == refusal.reason for condition in previous.conditions
    )
    new_events = () if is_reported else (Event("Warning", refusal.reason, refusal.message),)
    return replace(decision, status=status, events=(*decision.events, *new_events))
