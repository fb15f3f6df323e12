"""The client connects directly to the API server, regardless of proxy and password environment variables."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from gaudi_operator.shell.client import ClusterClient, Connection

CLOSED_PORT = "http://127.0.0.1:9"


async def test_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, CLOSED_PORT)
    app = web.Application()
    app.router.add_get("/version", _version)
    async with TestServer(app) as server, await Connection.connect(_kubeconfig(tmp_path, server)) as connection:
        assert await ClusterClient(connection, _uncounted).request("GET", "/version") == {"major": "1"}


async def test_requests_share_a_kept_connection(tmp_path: Path) -> None:
    connections = set[object]()

    async def version(request: web.Request) -> web.Response:
        connections.add(request.transport)
        return await _version(request)

    app = web.Application()
    app.router.add_get("/version", version)
    async with TestServer(app) as server, await Connection.connect(_kubeconfig(tmp_path, server)) as connection:
        for _ in range(3):
            await ClusterClient(connection, _uncounted).request("GET", "/version")
    assert len(connections) == 1


async def test_request_has_the_token_and_a_json_body(tmp_path: Path) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"token": request.headers["Authorization"], "body": await request.json()})

    app = web.Application()
    app.router.add_post("/echo", echo)
    async with TestServer(app) as server, await Connection.connect(_kubeconfig(tmp_path, server)) as connection:
        answer = await ClusterClient(connection, _uncounted).request("POST", "/echo", {"a": "ä"})
    assert answer == {"token": "Bearer t", "body": {"a": "ä"}}


async def _version(_: web.Request) -> web.Response:
    return web.json_response({"major": "1"})


def _uncounted(method: str, path: str, code: int) -> None:
    """Ignore a request instead of counting it."""


def _kubeconfig(folder: Path, server: BaseTestServer) -> str:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)
