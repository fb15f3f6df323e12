"""The engine at its edges: its load, its deadlines, the other pods, wrong files and its end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, Gauge

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.contract.config import ParallelismConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import EngineLoad
from gaudi_runtime.engine_protocol.group import LeaderEndpoint
from gaudi_runtime.engines.vllm import engine as adapter
from gaudi_runtime.engines.vllm import processes
from gaudi_runtime.engines.vllm.engine import VllmEngine
from gaudi_runtime.engines.vllm.launch import HOST_VARIABLE
from gaudi_runtime.engines.vllm.ranks import Ranks
from gaudi_runtime.errors import ConfigError, RankFailed, RuntimeStartError
from tests.unit.runtime.engines.vllm.cluster import Cluster, start_engine_on, two_cards, two_cores
from tests.unit.runtime.engines.vllm.installed import pretend_installed
from tests.unit.runtime.engines.vllm.workers.card import Card


@pytest.fixture(autouse=True)
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixture that pretends that the tested pair of releases is installed."""
    pretend_installed(monkeypatch, tmp_path, vllm=PAIRS[0].vllm, vllm_gaudi=PAIRS[0].plugin)


@asynccontextmanager
async def empty_application(parsed: object, engine: object) -> AsyncIterator[object]:
    """Replace vLLM's OpenAI application."""
    yield None


@contextmanager
def gauges(*values: tuple[float, float]) -> Iterator[None]:
    """Register vLLM's gauges, each with one sample for each of two engine cores."""
    registered = [Gauge(name, name, ["engine"]) for name in adapter.GAUGES]
    try:
        for gauge, samples in zip(registered, values, strict=True):
            for core, value in enumerate(samples):
                gauge.labels(str(core)).set(value)
        yield
    finally:
        for gauge in registered:
            REGISTRY.unregister(gauge)


async def test_load_is_the_sum_over_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = await start_engine_on(Cluster([Card(), Card()], cores=2), monkeypatch, two_cores())
    with gauges((3, 2), (5, 1), (0.5, 0.25)):
        assert engine.current_load() == EngineLoad(5, 6, round(0.75 * 1519), 2 * 1519)


async def test_load_before_the_first_step_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = await start_engine_on(Cluster([Card(), Card()]), monkeypatch)
    assert engine.current_load() == EngineLoad(0, 0, 0, 1519)


class OtherPod:
    """The other pod of a replica with two pods. It always works."""

    def __init__(self) -> None:
        self.serving = False
        self.looks = 0

    def start(self, progress: Any) -> LeaderEndpoint:
        """Return the address to which the processes connect."""
        return LeaderEndpoint("10.0.0.7", 4567)

    def raise_if_failed(self) -> None:
        """Report that the pod could not start."""
        raise RankFailed("ModelNotFound", "Rank 1: /models is empty.")

    def progress_count(self) -> int:
        """Return a larger number at each call."""
        self.looks += 1
        return self.looks

    def announce_serving(self) -> None:
        """Record the command."""
        self.serving = True


async def test_engine_starts_and_serves_together_with_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pod, launched = Cluster([Card(), Card()]), OtherPod(), list[Any]()
    config = two_cards().model_copy(update={"parallelism": ParallelismConfig(tensor=2, nodes=2)})
    monkeypatch.setenv(HOST_VARIABLE, "10.0.0.7")
    monkeypatch.setattr(processes, "launch", lambda *given: launched.extend(given) or (None, cluster.vllm))
    monkeypatch.setattr(adapter, "import_server", lambda: None)
    monkeypatch.setattr(adapter, "openai_application", empty_application)
    engine = VllmEngine(config, asyncio.get_running_loop())
    engine.set_other_pods(pod)  # type: ignore[arg-type]
    await asyncio.to_thread(engine.load, lambda: None)
    arguments, *_, check = launched
    assert {"--nnodes=2", "--node-rank=0", "--master-addr=10.0.0.7", "--master-port=4567"} <= set(arguments)
    with pytest.raises(RankFailed, match="/models is empty"):
        check()
    assert not pod.serving
    async with engine.application():
        assert pod.serving
    assert [verb for verb, _ in cluster.vllm.calls].count("start_serving") == 1


async def test_shapes_are_padded_to_buckets_of_a_partial_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card()])
    engine, _ = await start_engine_on(cluster, monkeypatch)
    plan = BucketPlan(prompt=(Bucket(1, 512, 0),), decode=(Bucket(4, 1, 16),))
    await asyncio.to_thread(engine.use_warm_buckets, plan)
    assert cluster.vllm.calls[-1] == ("use_warm", [[[1, 512, 0]], [[4, 1, 16]]])
    assert engine.counters.count_batch(BucketPhase.PROMPT, Bucket(1, 100, 0)) == Bucket(1, 512, 0)
    assert engine.counters.hits == 1


async def test_compiling_calls_have_the_stall_timeout_as_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compile may take longer than two minutes. Without a deadline, a hang would never end."""
    deadlines: dict[str, float] = {}
    call = Ranks.call

    def record(self: Ranks, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        deadlines[verb] = deadline
        return call(self, verb, *arguments, deadline=deadline)

    monkeypatch.setattr(Ranks, "call", record)
    config = two_cards()
    stall = float(config.serving.stall_timeout_seconds)
    await start_engine_on(Cluster([Card(), Card()]), monkeypatch, config)
    compiling = dict.fromkeys(("plan", "warm", "execute", "capture", "sampler", "defragmenter"), stall)
    assert deadlines == compiling | dict.fromkeys(("describe", "profile", "memory"), adapter.ANSWER_SECONDS)


async def test_drafts_that_the_plan_does_not_cover_fail_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card()])
    describe = cluster.workers[1].gaudi_verbs.describe
    monkeypatch.setattr(cluster.workers[1].gaudi_verbs, "describe", lambda: {**describe(), "draft_tokens": 3})
    with pytest.raises(ConfigError, match=r"differs from limits\.draftTokens: 0\."):
        await start_engine_on(cluster, monkeypatch)


async def test_wrong_file_of_the_application_is_a_reported_start_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM reads chat templates and adapters only while it builds its application."""

    @asynccontextmanager
    async def application(parsed: object, engine: object) -> AsyncIterator[object]:
        raise ValueError("The supplied chat template (/none.jinja) looks like a file path, but it failed to be opened.")
        yield

    monkeypatch.setattr(adapter, "openai_application", application)
    engine, _ = await start_engine_on(Cluster([Card(), Card()]), monkeypatch)
    with pytest.raises(RuntimeStartError, match=r"vLLM cannot start: .*/none\.jinja"):
        async with engine.application():
            pytest.fail("the application was built")


async def test_closing_ends_vllm_and_all_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, ended = Cluster([Card(), Card()]), list[bool]()
    engine, _ = await start_engine_on(cluster, monkeypatch)
    monkeypatch.setattr(adapter, "end_children", lambda: ended.append(cluster.vllm.ended))
    await engine.close()
    assert ended == [True]
