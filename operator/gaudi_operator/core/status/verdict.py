"""The verdict on one condition. Its type and time are added when conditions are written."""

from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.status import ConditionStatus

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True)
class Verdict:
    """The status, reason and message of a condition."""

    status: ConditionStatus
    reason: str
    message: str
