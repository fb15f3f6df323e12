"""Requests go to the API server itself, whatever the environment says about proxies and passwords."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from gaudi_operator.shell.client import Cluster, Connection

NOBODY = "http://127.0.0.1:9"


async def test_proxy_of_the_environment_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, NOBODY)
    app = web.Application()
    app.router.add_get("/version", _version)
    async with TestServer(app) as server, await Connection.connect(_kubeconfig(tmp_path, server)) as connection:
        assert await Cluster(connection, _uncounted).request("GET", "/version") == {"major": "1"}


async def _version(_: web.Request) -> web.Response:
    return web.json_response({"major": "1"})


def _uncounted(method: str, path: str, code: int) -> None:
    """Nothing is counted."""


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
