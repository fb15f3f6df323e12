"""The check of a new revision's bucket policy, which runs before anything is written (planning/precheck.py).

The largest policy takes tens of milliseconds. Therefore decisions do not run the check themselves. They ask for the
result of a BucketPolicyCheck, and BucketPolicyCheckPending ends the decision if there is no result yet. The reconcile
then writes only the gates, and runs again after the check (shell/policy_checks.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible, Problem
from gaudi_runtime.planning.precheck import precheck


@dataclass(frozen=True)
class BucketPolicyCheck:
    """A policy to check for a device with at most `kv_blocks` KV blocks. Checks with the same `key` are equal."""

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int
    refuses_gaps: bool
    key: str

    def run(self) -> Problem | None:
        """Run the check, and return the problem of the policy or None."""
        try:
            precheck(self.policy, self.limits, self.kv_blocks, refuses_gaps=self.refuses_gaps)
        except PlanImpossible as error:
            # `error.source` is set only if a single setting of the spec is at fault.
            message = f"spec.{error}." if error.source else f"spec.bucketing: {error}."
            return Problem(error.reason, message)
        return None


class BucketPolicyCheckPending(Exception):
    """The error that the result of `check` is needed but does not exist yet."""

    def __init__(self, check: BucketPolicyCheck) -> None:
        """Store the check, which is not started."""
        super().__init__(check.key)
        self.check = check


FindResult = Callable[[BucketPolicyCheck], Problem | None]
"""A function that returns the result of a check, or raises BucketPolicyCheckPending."""
