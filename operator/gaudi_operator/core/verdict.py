"""Verdict: what is judged of one condition."""

from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.status import ConditionStatus

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True)
class Verdict:
    """Status, reason and message of a condition; the type and the time are added later."""

    status: ConditionStatus
    reason: str
    message: str
