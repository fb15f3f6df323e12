"""The errors that the client raises for responses of the API server."""

import json

import pytest

from gaudi_operator.errors import (
    ForbiddenError,
    NotFoundError,
    NotLeaderError,
    OperatorError,
    StalledError,
    TransientError,
    WaitingError,
)
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import REPLICA_SET, SERVICE
from tests.unit.operator.shell.memory import NAMESPACE, Memory, manifest

PATH = SERVICE.path(NAMESPACE, "tiny")


def status(code: int, reason: str = "", **details: object) -> ApiClientResponse:
    return ApiClientResponse(code, json.dumps({"reason": reason, "message": "so it is", "details": details}).encode())


async def error_of(answer: ApiClientResponse | OSError, path: str = PATH) -> OperatorError:
    memory = Memory()
    memory.answers = [answer]
    with pytest.raises(OperatorError) as caught:
        await memory.cluster.request("GET", path)
    return caught.value


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, StalledError),
        (401, TransientError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, TransientError),
        (422, StalledError),
        (429, TransientError),
        (500, TransientError),
        (503, TransientError),
    ],
)
async def test_status_code_determines_the_error(code: int, kind: type[OperatorError]) -> None:
    assert type(await error_of(status(code))) is kind


async def test_apply_with_an_unknown_field_is_not_retried() -> None:
    message = (
        "failed to create typed patch object (a/b; apps/v1, Kind=ReplicaSet): .spec.of: field not declared in schema"
    )
    error = await error_of(ApiClientResponse(500, json.dumps({"message": message}).encode()))
    assert (type(error), error.reason) == (StalledError, "ApiRefused")


@pytest.mark.parametrize("denial", ["'a' with binding 'b' denied request: no", '"a" denied the request: no'])
async def test_denial_by_an_admission_rule_is_reported_at_once(denial: str) -> None:
    body = {"reason": "Forbidden", "message": f'replicasets.apps "x" is forbidden: {denial}'}
    error = await error_of(ApiClientResponse(403, json.dumps(body).encode()))
    assert (type(error), error.reason) == (StalledError, "ApiRefused")


async def test_error_without_a_status_body_is_recognized() -> None:
    assert type(await error_of(ApiClientResponse(502, b"<html>"))) is TransientError


async def test_terminating_namespace_is_transient() -> None:
    error = await error_of(status(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]))
    assert type(error) is WaitingError
    assert error.reason == "NamespaceTerminating"


DENIED = (
    "replicasets.apps \"tiny-a\" is forbidden: ValidatingAdmissionPolicy 'gaudi-operator-account' with binding "
    "'gaudi-operator-account' denied request: The account of gaudi-operator may not mount this."
)


def denied() -> ApiClientResponse:
    return ApiClientResponse(403, json.dumps({"reason": "Forbidden", "message": DENIED}).encode())


async def test_policy_that_refuses_a_workload_names_the_pod() -> None:
    error = await error_of(denied(), REPLICA_SET.path(NAMESPACE, "tiny-a"))
    assert (type(error), error.reason, error.message) == (
        StalledError,
        "PodNotAllowed",
        "The API server does not allow the pods of this spec.pod. The account of gaudi-operator may not mount this. "
        "Change spec.pod, or ask the administrator of the installation.",
    )


async def test_policy_that_refuses_another_object_names_no_pod() -> None:
    assert (await error_of(denied())).reason == "ApiRefused"


async def test_error_names_the_reason_of_the_api_server() -> None:
    assert (await error_of(status(409, "Conflict"))).reason == "Conflict"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])
async def test_retry_after_of_the_server_is_kept(header: str | None, seconds: float | None) -> None:
    error = await error_of(ApiClientResponse(429, b"{}", header))
    assert isinstance(error, TransientError)
    assert error.retry_after == seconds


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError()])
async def test_missing_answer_is_transient(error: OSError) -> None:
    assert (await error_of(error)).reason == "ApiServerUnreachable"


@pytest.mark.parametrize("text", [b"<html>", b"", b"5", b"[]"])
async def test_answer_that_is_not_an_object_is_transient(text: bytes) -> None:
    assert (await error_of(ApiClientResponse(200, text))).reason == "NotTheApiServer"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_write_of_a_follower_is_not_sent(method: str) -> None:
    memory = Memory()
    memory.cluster.may_write = lambda: False
    with pytest.raises(NotLeaderError):
        await memory.cluster.request(method, PATH, {})
    assert not memory.requests


async def test_follower_may_read_and_write_its_lease() -> None:
    memory = Memory()
    memory.cluster.may_write = lambda: False
    body = manifest(SERVICE, "tiny")
    await memory.cluster.request("POST", SERVICE.path(NAMESPACE), body, fenced=False)
    assert (await memory.cluster.request("GET", PATH))["metadata"]["name"] == "tiny"
