"""The status of a resource after the API server has refused a request, or if the operator cannot read the spec."""

from dataclasses import replace
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import (
    GaudiInferenceStatus,
)
from gaudi_operator.core.actions import Decision, Event
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.resource import read_identity
from gaudi_operator.core.status.conditions import (
    FALSE,
    TRUE,
    Verdict,
    build_conditions,
)
from gaudi_runtime.errors import Problem

REASON = "SpecUnreadable"


def unreadable_status(observed: Observed, before: GaudiInferenceStatus, sentence: str) -> GaudiInferenceStatus:
    """Return `before` with conditions for a spec that cannot be read. The rows of pods stay."""
    generation = read_identity(observed.resource).generation
    verdicts = {
        "Ready": Verdict(FALSE, REASON, sentence),
        "Reconciling": Verdict(
            FALSE, "Stalled", "The operator waits for a change. The condition Stalled has the reason."
        ),
        "Stalled": Verdict(TRUE, REASON, sentence),
        "PlanAccepted": Verdict(FALSE, REASON, sentence),
    }
    # Keep the other conditions. They describe the pods, whose state does not depend on whether the new spec can be
    # read.
    kept = {each.type: Verdict(each.status, each.reason, each.message) for each in before.conditions}
    conditions = build_conditions((kept | verdicts).items(), before.conditions, generation, observed.now)
    return before.model_copy(update={"observed_generation": generation, "phase": "Stalled", "conditions": conditions})


def add_refusal(decision: Decision, before: GaudiInferenceStatus, refusal: Problem, now: datetime) -> Decision:
    """Return the decision with a status that shows the refusal. A new refusal also adds an event.

    `before` is the written status.
    """
    verdicts = (
        ("Ready", Verdict(FALSE, refusal.reason, refusal.message)),
        (
            "Reconciling",
            Verdict(FALSE, "Stalled", "The API server refused a request. The condition Stalled has the reason."),
        ),
        ("Stalled", Verdict(TRUE, refusal.reason, refusal.message)),
    )
    judged = build_conditions(verdicts, before.conditions, decision.status.observed_generation, now)
    replaced = {each.type for each in judged}
    others = (each for each in decision.status.conditions if each.type not in replaced)
    status = decision.status.model_copy(update={"phase": "Stalled", "conditions": (*judged, *others)})
    # Publish the event only once, because the same refusal repeats in every reconcile.
    known = any(each.type == "Stalled" and each.reason == refusal.reason for each in before.conditions)
    news = () if known else (Event("Warning", refusal.reason, refusal.message),)
    return replace(decision, status=status, events=(*decision.events, *news))
