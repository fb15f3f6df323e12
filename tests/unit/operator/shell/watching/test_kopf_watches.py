"""Lists and watches of kopf: refused kinds and when they recover, watches that are not renewed, and stored lists."""

import logging
import time
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.shell.kinds import POD, RESOURCE
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.watching.kopf_watches import KopfListResponse, KopfWatchSession, parse_kopf_path


def session() -> KopfWatchSession:
    return KopfWatchSession(MonitoringMetrics(), lambda _: None, lambda *_: None)


def test_idle_time_is_zero_before_the_first_watch() -> None:
    assert session().idle_seconds() == 0


def test_longest_idle_time_is_reported() -> None:
    watching = session()
    now = time.monotonic()
    watching.last_attempts |= {POD: now - 1000, RESOURCE: now}
    assert 1000 <= watching.idle_seconds() < 1010


def test_collection_of_all_namespaces_is_recognized() -> None:
    assert parse_kopf_path("/api/v1/pods") == (POD, None)


def test_collection_of_one_namespace_is_recognized() -> None:
    path = "/apis/inference.gaudi.dev/v1alpha1/namespaces/blue/gaudiinferences"
    assert parse_kopf_path(path) == (RESOURCE, "blue")


def test_other_path_is_not_a_collection() -> None:
    assert parse_kopf_path("/apis/apps/v1") is None
    assert parse_kopf_path("/api/v1/podx") is None
    assert parse_kopf_path("/api/v1/namespaces/blue/pods/one") is None


async def test_list_is_stored_and_handed_on_without_objects() -> None:
    listed = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"uid": "p"}}]}
    watching, taken = listening()
    assert await answered(watching, listed) == {**listed, "items": []}
    assert taken == [({"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "p"}},), (POD, None, ["p"], 7)]


async def test_listed_object_is_stored_before_the_next_is_read() -> None:
    watching, taken = listening()
    with pytest.raises(TypeError):
        await answered(watching, {"metadata": {}, "items": [{"metadata": {"uid": "p"}}, "not an object"]})
    assert taken == [({"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "p"}},)]


async def test_refused_list_is_not_stored_and_marks_its_kind() -> None:
    watching, taken = listening()
    assert await answered(watching, {"message": "forbidden"}, status=403) == {"message": "forbidden"}
    assert taken == []
    assert watching.failing_kinds == {POD}


async def test_kind_recovers_with_the_next_list(caplog: pytest.LogCaptureFixture) -> None:
    watching, _ = listening()
    await answered(watching, {}, status=403)
    with caplog.at_level(logging.INFO, "gaudi_operator"):
        await answered(watching, {"metadata": {"resourceVersion": "7"}, "items": []})
    assert watching.failing_kinds == set()
    assert "pods can be watched again." in caplog.messages


def counted(watching: KopfWatchSession, verb: str, code: int) -> float | None:
    """Return the number of counted requests for pods with this verb and status code."""
    labels = {"verb": verb, "resource": "pods", "code": str(code)}
    return watching.metrics.registry.get_sample_value("gaudi_operator_api_requests_total", labels)


@pytest.mark.parametrize("status", [200, 403])
async def test_lists_are_counted_by_their_status(status: int) -> None:
    watching = session()
    await answered(watching, {"metadata": {"resourceVersion": "7"}, "items": []}, status)
    assert counted(watching, "list", status) == 1


async def test_watch_is_counted_and_not_read() -> None:
    watching, taken = listening()
    event = {"type": "ADDED", "object": {}}
    assert await answered(watching, event, watch="true") == event
    assert taken == []
    assert counted(watching, "watch", 200) == 1


def listening() -> tuple[KopfWatchSession, list[tuple[Any, ...]]]:
    """Return a session and its recorded calls: one call for each object of a list, and one for the end of the list."""
    taken: list[tuple[Any, ...]] = []
    return KopfWatchSession(
        MonitoringMetrics(), lambda *each: taken.append(each), lambda *each: taken.append(each)
    ), taken


async def test_children_wait_for_the_resources_of_each_namespace() -> None:
    empty = {"metadata": {"resourceVersion": "7"}, "items": []}
    watching = KopfWatchSession(MonitoringMetrics(), lambda _: None, lambda *_: None, ("blue", "green"))
    for namespace in watching.namespaces:
        assert not watching.resources_listed.is_set()
        await answered(watching, empty, path=RESOURCE.path(namespace))
    assert watching.resources_listed.is_set()


async def answered(
    watching: KopfWatchSession, body: object, status: int = 200, path: str = POD.path(None), **query: str
) -> object:
    """Return the object that kopf reads if the API server responds to a request for a kind with `body`."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_get(path, answer)
    async with (
        TestServer(app) as server,
        aiohttp.ClientSession(middlewares=(watching,), response_class=KopfListResponse) as session,
        session.get(server.make_url(path), params=query) as response,
    ):
        return await response.json()
