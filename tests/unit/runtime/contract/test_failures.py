"""The reasons of failed starts that may pass."""

import pytest

from gaudi_runtime.contract.failures import CRASH_REASONS, EXTERNAL_REASONS, PASSING_REASONS
from gaudi_runtime.errors import RuntimeStartError


def test_reasons_are_reasons_of_errors_or_a_crash() -> None:
    reasons = {error.reason for error in RuntimeStartError.__subclasses__()}
    assert reasons >= PASSING_REASONS - {"Crashed"}


@pytest.mark.parametrize(
    "reason", ["ModelNotFound", "ModelUnreadable", "ConfigInvalid", "PlanImpossible", "StartFailed"]
)
def test_failure_that_only_a_change_resolves_does_not_pass(reason: str) -> None:
    assert reason not in PASSING_REASONS


def test_crash_has_no_external_cause() -> None:
    assert EXTERNAL_REASONS.isdisjoint(CRASH_REASONS)
