"""Failures of ranks as errors on the leader."""

import pytest

from gaudi_runtime.engine_protocol.messages import (
    MessageVerb,
    UpdateMessage,
    failure_message_from_error,
    raise_first_failure_message,
)
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, ModelNotFound, RankFailed


def done(answer: object = None, error: Exception | None = None) -> UpdateMessage:
    """Return the message that a rank sends when the verb CAPTURE is done or has failed."""
    return UpdateMessage(
        done=MessageVerb.CAPTURE, answer=answer, failure=failure_message_from_error(error) if error else None
    )


def test_no_error_is_raised_if_every_rank_succeeds() -> None:
    raise_first_failure_message({1: done(5), 2: done(6)})


@pytest.mark.parametrize("kind", [DeviceOutOfMemory, GraphRefused])
def test_graph_failure_of_one_rank_is_raised_with_its_number(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^rank 2: no room$"):
        raise_first_failure_message({1: done(5), 2: done(error=kind("no room"))})


def test_failure_of_a_rank_keeps_its_reason() -> None:
    with pytest.raises(RankFailed, match=r"^Rank 1: /models is empty\.$") as failed:
        raise_first_failure_message({1: done(error=ModelNotFound("/models is empty."))})
    assert failed.value.reason == "ModelNotFound"


def test_foreign_error_is_reported_by_its_class_name() -> None:
    found = failure_message_from_error(ZeroDivisionError("division by zero"))
    assert (found.reason, found.message) == ("Crashed", "ZeroDivisionError: division by zero")


def test_long_error_message_is_cut() -> None:
    assert failure_message_from_error(ModelNotFound("x" * 5000)).message == "x" * 1024
