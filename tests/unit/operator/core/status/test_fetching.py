"""The status of a pod that fetches its model."""

import pytest

from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.rendering.pod_volumes import describe_fetch_progress
from gaudi_operator.core.status.status_builder import build_status
from gaudi_runtime.contract.report import FetchProgressReport, Phase, RuntimeFailureReport
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.states import problem_of, state_of

GIB = 1024**3


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        (FetchProgressReport(done_bytes=0), "Fetches the model."),
        (
            FetchProgressReport(done_bytes=3 * GIB, total_bytes=16 * GIB),
            "Downloading the model: 3 GiB of 16 GiB (18 %).",
        ),
        (FetchProgressReport(done_bytes=GIB, total_bytes=GIB), "Downloading the model: 1 GiB of 1 GiB (100 %)."),
        (
            FetchProgressReport(done_bytes=5 * GIB, waiting=True),
            "Waiting for another process that downloads the model: 5 GiB are fetched.",
        ),
    ],
    ids=["beginning", "under_way", "done", "waiting"],
)
def test_fetch_progress_is_formatted_as_a_message(progress: FetchProgressReport, sentence: str) -> None:
    assert describe_fetch_progress(progress) == sentence


@pytest.mark.parametrize(
    ("reason", "kind", "message"),
    [
        ("ModelAccessDenied", "Stalled", "Repository a/b is gated."),
        ("HubUnreachable", "Reconciling", "The download of model.safetensors from a/b ended after 5 of 9 bytes."),
        ("DiskFull", "Reconciling", "Repository a/b needs 16 GiB more."),
    ],
)
def test_failed_fetch_is_in_the_conditions_and_the_pod_status(reason: str, kind: str, message: str) -> None:
    failure = RuntimeFailureReport(reason=reason, message=message)
    failed = view(pod(revision="new"), report(Phase.FAILED, failure=failure))
    problem = problem_of(failed, state_of(), RoomCriterion(to_come=False))
    status = build_status(state_of([failed], problem=problem))
    conditions = {each.type: (each.status, each.reason, each.message) for each in status.conditions}
    assert conditions[kind] == ("True", reason, f"Pod a cannot start: {message}")
    assert conditions["Ready"] == ("False", reason, f"Pod a cannot start: {message}")
    assert [each.message for each in status.pods] == [message]


def test_pod_waiting_for_another_fetch_has_a_message() -> None:
    waiting = FetchProgressReport(done_bytes=5 * GIB, waiting=True)
    waits = report(Phase.FETCHING, fetch=waiting)
    (row,) = build_status(state_of([view(pod(revision="new"), waits)])).pods
    assert (row.phase, row.message) == ("Fetching", describe_fetch_progress(waiting))
