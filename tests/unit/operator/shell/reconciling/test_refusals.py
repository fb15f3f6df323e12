"""A refused request is not repeated immediately, and is forgotten when it is no longer desired."""

from dataclasses import dataclass

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Apply
from gaudi_operator.errors import ForbiddenError, StalledError, TransientError
from gaudi_operator.shell.reconciling.refusals import Refusals

REFUSED = StalledError("ApiRefused", "the field is wrong")


FORBIDDEN = ForbiddenError("ApiForbidden", "no rights")


@dataclass
class Time:
    """A clock for refusals that the test sets."""

    seconds: float = 0.0

    def refusals(self) -> Refusals:
        return Refusals(clock=Clock(monotonic=lambda: self.seconds))


def apply(port: int) -> Apply:
    return Apply({"kind": "Service", "metadata": {"name": "tiny"}, "spec": {"port": port}}, "it does not exist")


def test_refused_action_is_remembered() -> None:
    refusals = Refusals()
    refusals.add(apply(1), REFUSED)
    assert refusals.find(apply(1)) is REFUSED


def test_changed_action_is_tried_immediately() -> None:
    refusals = Refusals()
    refusals.add(apply(1), REFUSED)
    assert refusals.find(apply(2)) is None


def test_refusal_expires() -> None:
    time = Time()
    refusals = time.refusals()
    refusals.add(apply(1), REFUSED)
    time.seconds += refusals.seconds_until_retry() or 0.0
    assert refusals.find(apply(1)) is None


def test_refusals_last_longer_each_time() -> None:
    refusals = Refusals()
    for _ in range(12):
        refusals.add(apply(1), REFUSED)
    seconds = refusals.seconds_until_retry()
    assert seconds is not None
    assert 30 <= seconds <= 60


def test_refusal_of_an_undesired_action_is_forgotten() -> None:
    refusals = Refusals()
    refusals.add(apply(1), REFUSED)
    refusals.keep_only(())
    assert refusals.seconds_until_retry() is None


def test_accepted_action_clears_its_refusal() -> None:
    refusals = Refusals()
    refusals.add(apply(1), REFUSED)
    refusals.remove(apply(1))
    assert refusals.seconds_until_retry() is None


def test_missing_permission_is_retried_before_its_deadline() -> None:
    refusals = Refusals()
    with pytest.raises(TransientError):
        refusals.add(apply(1), FORBIDDEN)


def test_missing_permission_is_a_refusal_after_its_deadline() -> None:
    time = Time()
    refusals = time.refusals()
    with pytest.raises(TransientError):
        refusals.add(apply(1), FORBIDDEN)
    time.seconds += 10
    refusals.add(apply(1), FORBIDDEN)
    assert refusals.find(apply(1)) is FORBIDDEN
