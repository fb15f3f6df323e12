"""A kind is listed in pages and then watched. No response of the API server ends the watch permanently."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.retry_delays import RetryDelays
from gaudi_operator.shell.kinds import POD, SERVICE, Kind
from gaudi_operator.shell.watching.list_watch import ListWatch, split_list_watch_lines

Object = Mapping[str, Any]
Pieces = list[bytes | int]


class Server:
    """A server that responds to list and watch requests for pods. The last watch stays open."""

    def __init__(self, pages: list[Object | int], watches: list[Pieces]) -> None:
        """Create a server. Each page is a list or a status code. Each watch is a status code or pieces of text."""
        self.pages, self.watches = pages, watches
        self.requests: list[dict[str, str]] = []
        self.calls: list[tuple[str, Any]] = []
        self.timeouts: list[aiohttp.ClientTimeout] = []
        self.news = asyncio.Condition()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Respond to one list or watch request."""
        self.requests.append(dict(request.query))
        if "watch" not in request.query:
            page = self.pages.pop(0)
            return web.Response(status=page) if isinstance(page, int) else web.json_response(page)
        pieces = self.watches.pop(0)
        if isinstance(pieces[0], int):
            return web.Response(status=pieces[0])
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            assert isinstance(piece, bytes)
            await response.write(piece)
        if not self.watches:
            await asyncio.Event().wait()
        return response

    def listed(self, kind: Kind, namespace: str | None, uids: Any, version: int) -> None:
        """Record the end of a list."""
        self.record("listed", (kind, namespace, sorted(uids), version))

    def record(self, what: str, value: Any) -> None:
        """Record a call."""
        self.calls.append((what, value))
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the recorded calls meet a condition."""
        async with self.news, asyncio.timeout(10):
            await self.news.wait_for(holds)


class Client:
    """A session that records the timeout of each request."""

    def __init__(self, session: aiohttp.ClientSession, timeouts: list[aiohttp.ClientTimeout]) -> None:
        """Create a session that appends the timeout of each request to `timeouts`."""
        self._session, self._timeouts = session, timeouts

    def get(self, url: str, *, timeout: aiohttp.ClientTimeout, params: Object) -> Any:
        """Send one request."""
        self._timeouts.append(timeout)
        return self._session.get(url, timeout=timeout, params=params)


@asynccontextmanager
async def following(server: Server, kind: Kind = POD, **injected: Any) -> AsyncIterator[Server]:
    """Run a ListWatch of a kind in a namespace. `injected` has its clock and its pause function."""
    app = web.Application()
    app.router.add_get(f"/api/v1/namespaces/blue/{kind.plural}", server.answer)
    async with TestServer(app) as http, aiohttp.ClientSession() as session:
        url = str(http.make_url("")).rstrip("/")
        client = cast("aiohttp.ClientSession", Client(session, server.timeouts))
        calls = [partial(record_object, server, what) for what in ("seen", "gone")]
        task = asyncio.create_task(ListWatch(client, url, kind, "blue", server.listed, *calls, **injected).run())
        yield server
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def record_object(server: Server, what: str, manifest: Object) -> None:
    server.record(what, manifest["metadata"]["name"])


def pod(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": str(version), "managedFields": [{}]}}


def page(*names: str, version: int = 7, more: str = "") -> Object:
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return {"metadata": metadata, "items": [pod(name, 1) for name in names]}


def event(what: str, name: str, version: int) -> bytes:
    return json.dumps({"type": what, "object": pod(name, version)}).encode() + b"\n"


EMPTY: Pieces = [b""]


async def test_pages_are_joined_into_one_list() -> None:
    async with following(Server([page("a", more="next"), page("b")], [EMPTY])) as server:
        await server.until(lambda: len(server.calls) == 3)
    assert server.calls == [("seen", "a"), ("seen", "b"), ("listed", (POD, "blue", ["uid-of-a", "uid-of-b"], 7))]
    assert [each.get("continue") for each in server.requests[:2]] == [None, "next"]
    assert [each["limit"] for each in server.requests[:2]] == ["500", "500"]
    assert "labelSelector" in server.requests[0]


def test_retry_delays_increase_to_two_seconds_and_never_end() -> None:
    assert list(islice(RetryDelays(), 6)) == [0.2, 0.5, 1.0, 2.0, 2.0, 2.0]


async def test_watches_that_end_immediately_are_retried_after_a_delay() -> None:
    ended: Pieces = [event("BOOKMARK", "", 9)]
    began = asyncio.get_running_loop().time()
    async with following(Server([page()], [ended, ended, [event("ADDED", "a", 10)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
        assert asyncio.get_running_loop().time() - began > 0.6


async def test_delays_are_reset_after_a_lasting_watch() -> None:
    ended: Pieces = [event("BOOKMARK", "", 9)]
    # Each pair of numbers is the start and the end of a watch. The first, second and fourth watch end after 0.5 s, the
    # third ends after 1 s, and the last one stays open.
    seconds = iter([0.0, 0.5, 10.0, 10.5, 20.0, 21.0, 30.0, 30.5, 40.0])
    delays: list[float] = []

    async def pause(delay: float) -> None:
        delays.append(delay)

    server = Server([page()], [ended, ended, ended, ended, [event("ADDED", "a", 10)]])
    async with following(server, clock=lambda: next(seconds), pause=pause):
        await server.until(lambda: ("seen", "a") in server.calls)
    first, second = islice(RetryDelays(), 2)
    assert delays == [first, second, first]


async def test_list_and_its_connection_have_a_timeout() -> None:
    async with following(Server([page()], [EMPTY])) as server:
        await server.until(lambda: len(server.calls) == 1)
    timeout = server.timeouts[0]
    assert timeout.total is not None
    assert timeout.sock_connect is not None
    assert 0 < timeout.sock_connect < timeout.total


async def test_watch_times_out_after_the_server_has_ended_it() -> None:
    async with following(Server([page()], [[event("ADDED", "a", 8)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
    timeout, server_timeout = server.timeouts[1], int(server.requests[1]["timeoutSeconds"])
    assert timeout.total is not None
    assert server_timeout < timeout.total < 2 * server_timeout


async def test_silent_watch_times_out_after_a_missed_bookmark() -> None:
    async with following(Server([page()], [[event("ADDED", "a", 8)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
    timeout, bookmarks = server.timeouts[1], 60
    assert server.requests[1]["allowWatchBookmarks"] == "true"
    assert timeout.sock_connect is not None
    assert timeout.sock_read is not None
    assert timeout.sock_connect < bookmarks < timeout.sock_read < 2 * bookmarks


async def test_watch_continues_from_the_list_and_reports_changes() -> None:
    events = event("ADDED", "a", 8) + event("BOOKMARK", "", 9) + event("DELETED", "a", 10)
    async with following(Server([page()], [[events[:20], events[20:]]])) as server:
        await server.until(lambda: ("gone", "a") in server.calls)
    assert server.calls[1:] == [("seen", "a"), ("gone", "a")]
    assert server.requests[1]["resourceVersion"] == "7"


async def test_collected_changes_of_children_are_all_reported() -> None:
    pieces: Pieces = [event("ADDED", "a", 8), event("ADDED", "b", 9)[:20], event("ADDED", "b", 9)[20:]]
    async with following(Server([page()], [pieces, [event("DELETED", "a", 10)]]), SERVICE) as server:
        await server.until(lambda: ("gone", "a") in server.calls)
    assert server.calls[1:] == [("seen", "a"), ("seen", "b"), ("gone", "a")]
    assert [each["resourceVersion"] for each in server.requests[1:]] == ["7", "9"]


async def test_ended_watch_continues_at_its_last_version() -> None:
    async with following(Server([page()], [[event("BOOKMARK", "", 9)], [event("ADDED", "a", 10)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
    assert [each["resourceVersion"] for each in server.requests[1:]] == ["7", "9"]


GONE = json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}).encode() + b"\n"


@pytest.mark.parametrize("gone", [[410], [GONE]])
async def test_expired_version_leads_to_a_new_list(gone: Pieces) -> None:
    async with following(Server([page(), page("a", version=20)], [gone, EMPTY])) as server:
        await server.until(lambda: len(server.calls) == 3)
    assert server.calls[1:] == [("seen", "a"), ("listed", (POD, "blue", ["uid-of-a"], 20))]


@pytest.mark.parametrize("refused", [[403], [500], [b"<html>\n"]])
async def test_refused_watch_is_retried(refused: Pieces) -> None:
    async with following(Server([page()], [refused, [event("ADDED", "a", 8)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
    assert [each["resourceVersion"] for each in server.requests[1:]] == ["7", "7"]


@pytest.mark.parametrize("code", [403, 410, 503])
async def test_refused_list_is_retried(code: int) -> None:
    async with following(Server([page("a", more="next"), code, page("b")], [EMPTY])) as server:
        await server.until(lambda: len(server.calls) == 3)
    assert server.calls == [("seen", "a"), ("seen", "b"), ("listed", (POD, "blue", ["uid-of-b"], 7))]


@pytest.mark.parametrize("strange", [{}, {"metadata": {"name": "b"}, "spec": {"containers": "none"}}])
async def test_unreadable_object_is_skipped(strange: Object, caplog: pytest.LogCaptureFixture) -> None:
    versioned = {**strange, "metadata": {**strange.get("metadata", {}), "resourceVersion": "8"}}
    line = json.dumps({"type": "ADDED", "object": versioned}).encode() + b"\n"
    async with following(Server([page()], [[line, event("ADDED", "a", 9)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
    # If the name of an invalid object is readable, the operator stores only the name and logs nothing.
    assert caplog.messages == ([] if strange else ["An event of the watch of pods could not be processed."])


async def test_error_event_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    error = json.dumps({"type": "ERROR", "object": {"code": 500, "message": "etcd is slow"}}).encode() + b"\n"
    async with following(Server([page()], [[error], [event("ADDED", "a", 8)]])) as server:
        await server.until(lambda: ("seen", "a") in server.calls)
    assert [each["resourceVersion"] for each in server.requests[1:]] == ["7", "7"]
    assert caplog.messages == ["The watch of pods ended: etcd is slow. It is retried."]


async def test_line_is_complete_for_any_chunk_sizes() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for piece in (b"on", b"e\ntwo\nth", b"r", b"ee\n", b"half"):
            yield piece

    assert [line async for line in split_list_watch_lines(chunks())] == [b"one", b"two", b"three"]
