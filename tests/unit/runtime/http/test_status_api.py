"""The status port over real sockets: paths, methods, limits."""

import asyncio
import re
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256

import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucket_table import BucketTable
from gaudi_runtime.contract.report import (
    MAX_REPORT_BYTES,
    Phase,
    PhaseProgressReport,
    SharedRecipesOutcome,
    SharedRecipesReport,
    WarmupReport,
)
from gaudi_runtime.http.connection import ConnectionLimits
from gaudi_runtime.http.metrics import MetricSources, new_metrics_registry
from gaudi_runtime.http.server import http_server
from gaudi_runtime.http.status_api import STATUS_LIMITS, status_app
from gaudi_runtime.report.report_board import MAX_WAITERS, ReportBoard
from gaudi_runtime.start_engine import start_engine
from gaudi_runtime.traffic.histogram import Traffic, parse_traffic
from tests.unit.runtime.configs import free_port, sim_config


@dataclass
class StatusPort:
    board: ReportBoard
    observed: MetricSources
    http: httpx.AsyncClient
    port: int


@asynccontextmanager
async def listening(limits: ConnectionLimits) -> AsyncIterator[StatusPort]:
    board = ReportBoard("a" * 64)
    observed = MetricSources(board.report)
    app = status_app(board, observed, new_metrics_registry(observed), 30, lambda: False)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with (
        http_server(app, port, limits),
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
    ):
        yield StatusPort(board, observed, http, port)
        board.close()


@pytest_asyncio.fixture
async def status() -> AsyncIterator[StatusPort]:
    async with listening(STATUS_LIMITS) as running:
        yield running


async def test_report_is_serialized_in_camel_case(status: StatusPort) -> None:
    answer = await status.http.get("/v1/warmup")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["planHash"] == "a" * 64
    assert WarmupReport.model_validate_json(answer.content).phase is Phase.STARTING
    assert len(answer.content) < MAX_REPORT_BYTES


async def test_long_poll_is_answered_when_the_phase_changes(status: StatusPort) -> None:
    sequence = status.board.report().sequence
    poll = asyncio.create_task(status.http.get("/v1/warmup", params={"after": sequence, "wait": 30}))
    await asyncio.sleep(0)
    assert not poll.done()
    status.board.update(phase=Phase.LOADING)
    assert (await poll).json()["phase"] == "Loading"


@pytest.mark.parametrize("query", [{"wait": 61}, {"wait": -1}, {"after": -1}, {"wait": "nan"}, {"after": "x"}])
async def test_query_out_of_bounds_is_refused(status: StatusPort, query: dict[str, str]) -> None:
    assert (await status.http.get("/v1/warmup", params=query)).status_code == 422


@pytest.mark.parametrize("path", ["/", "/v1/warmup", "/v1/buckets", "/v1/traffic", "/livez", "/readyz", "/metrics"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
async def test_other_methods_than_get_are_refused(status: StatusPort, method: str, path: str) -> None:
    assert (await status.http.request(method, path)).status_code == 405


async def test_traffic_is_empty_before_the_engine_serves(status: StatusPort) -> None:
    assert parse_traffic((await status.http.get("/v1/traffic")).text) == Traffic({}, {})


async def test_traffic_lists_the_served_shapes(status: StatusPort) -> None:
    engine = start_engine(sim_config(), status.board, threading.Event()).engine
    engine.start_serving()
    status.observed.engine = engine
    engine.counters.add_rows([["prompt", [1, 412, 0], None, 17, 0], ["decode", [3, 1, 40], None, 250, 0]])
    answer = await status.http.get("/v1/traffic")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert parse_traffic(answer.text) == Traffic({Bucket(1, 412, 0): 17.0}, {Bucket(3, 1, 40): 250.0})


async def test_buckets_are_listed_with_their_traffic(status: StatusPort) -> None:
    engine = start_engine(sim_config(), status.board, threading.Event()).engine
    engine.start_serving()
    status.observed.engine = engine
    engine.counters.add_rows([["prompt", [1, 412, 0], None, 17, 0]])
    answer = await status.http.get("/v1/buckets")
    table = BucketTable.model_validate_json(answer.content)
    assert table.instance == status.board.report().instance
    assert {tuple(row.bucket): row.hits for row in table.rows if row.hits} == {(1, 512, 0): 17}


async def test_page_contains_no_external_links_or_scripts(status: StatusPort) -> None:
    answer = await status.http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"https?://|innerHTML|\bsrc=|\bhref=", answer.text)
    assert len(answer.text.splitlines()) <= 250


async def test_policy_of_the_page_allows_its_only_script_and_style(status: StatusPort) -> None:
    answer = await status.http.get("/")
    policy = answer.headers["content-security-policy"]
    for tag in ("script", "style"):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        digest = b64encode(sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert not re.search(r"\s(style|on\w+)=", answer.text)  # The policy would block them.


async def test_disconnected_poller_frees_its_place(status: StatusPort) -> None:
    sequence = status.board.report().sequence
    query = {"after": sequence, "wait": 60}
    for _ in range(MAX_WAITERS + 1):
        with pytest.raises(httpx.ReadTimeout):
            await status.http.get("/v1/warmup", params=query, timeout=httpx.Timeout(30, read=0.02))
    assert (await status.http.get("/v1/warmup", params={"after": sequence, "wait": 0.01})).status_code == 200


async def test_poller_beyond_the_limit_gets_retry_after(status: StatusPort) -> None:
    query = {"after": status.board.report().sequence, "wait": 30}
    polls = [asyncio.create_task(status.http.get("/v1/warmup", params=query)) for _ in range(MAX_WAITERS + 1)]
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = (task.result() for task in done)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    status.board.update(phase=Phase.LOADING)
    await asyncio.gather(*polls)


async def test_not_ready_is_503_with_a_message(status: StatusPort) -> None:
    answer = await status.http.get("/readyz")
    assert answer.status_code == 503
    assert (
        answer.json()["message"] == "This instance is in phase Starting. The model port is open only in phase Serving."
    )


async def test_serving_is_ready_and_alive(status: StatusPort) -> None:
    status.board.update(phase=Phase.SERVING)
    assert (await status.http.get("/readyz")).status_code == 200
    assert (await status.http.get("/livez")).status_code == 200


async def test_metrics_show_buckets_and_phase(status: StatusPort) -> None:
    status.board.update(phase=Phase.CAPTURING, prompt=PhaseProgressReport(planned=4, warmed=3, captured=2))
    families = text_string_to_metric_families((await status.http.get("/metrics")).text)
    samples = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    assert samples["gaudi_buckets", "prompt", "planned"] == 4
    assert samples["gaudi_buckets", "prompt", "captured"] == 2
    assert samples["gaudi_phase", "Capturing"] == 1


async def test_metrics_show_seconds_saved_by_recipes(status: StatusPort) -> None:
    shared = SharedRecipesReport(outcome=SharedRecipesOutcome.HIT)
    counts = PhaseProgressReport(planned=4, warmed=4, cached=3)
    status.board.update(prompt=counts, shared_recipes=shared, recipe_seconds_saved=41.5)
    families = text_string_to_metric_families((await status.http.get("/metrics")).text)
    samples = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    assert (samples["gaudi_recipes_found", "prompt"], samples[("gaudi_recipe_saved_seconds",)]) == (3, 41.5)
    assert (samples["gaudi_shared_recipes", "Hit"], samples["gaudi_shared_recipes", "Miss"]) == (1, 0)


async def test_header_beyond_the_limit_is_refused(status: StatusPort) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", status.port)
    writer.write(b"GET /livez HTTP/1.1\r\nx: " + b"y" * 10_000)
    async with asyncio.timeout(5):
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await writer.wait_closed()


async def test_silent_connection_is_closed() -> None:
    async with listening(replace(STATUS_LIMITS, head_seconds=0.3)) as status:
        reader, writer = await asyncio.open_connection("127.0.0.1", status.port)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
