"""The status of a resource whose spec this operator cannot read: said, and nothing is touched."""

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.conditions import conditions_from
from gaudi_operator.core.inference import read_identity
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.verdict import FALSE, TRUE, Verdict

REASON = "SpecUnreadable"


def unreadable_status(observed: Observed, before: GaudiInferenceStatus, sentence: str) -> GaudiInferenceStatus:
    """`before` with the conditions that say so; what was last known of the pods stays."""
    generation = read_identity(observed.resource).generation
    verdicts = {
        "Ready": Verdict(FALSE, REASON, sentence),
        "Reconciling": Verdict(FALSE, "Stalled", "Nothing moves on by itself; the condition Stalled says why."),
        "Stalled": Verdict(TRUE, REASON, sentence),
        "PlanAccepted": Verdict(FALSE, REASON, sentence),
    }
    kept = {each.type: Verdict(each.status, each.reason, each.message) for each in before.conditions}
    conditions = conditions_from((kept | verdicts).items(), before.conditions, generation, observed.now)
    return before.model_copy(update={"observed_generation": generation, "phase": "Stalled", "conditions": conditions})
