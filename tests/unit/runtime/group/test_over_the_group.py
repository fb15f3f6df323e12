"""The engine of a leader's pod, for a single pod and for a group of pods."""

import asyncio
from typing import cast

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import ParallelismConfig, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.engine_protocol.engine import ProfilingEngine
from gaudi_runtime.engine_protocol.messages import HelloMessage, UpdateMessage, message_config_digest
from gaudi_runtime.engines.create_engine import create_engine, create_engine_rank
from gaudi_runtime.group.follow import follow_leader
from gaudi_runtime.group.peers import lead_peers
from gaudi_runtime.group.topology import ALONE, Topology
from gaudi_runtime.process.signals import Signals
from gaudi_runtime.process.worker import run_in_worker_thread
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import free_port, sim_config
from tests.unit.runtime.group.ends import HOST, QUICK, connect_rank

pytestmark = QUICK


def two_pod_config() -> RuntimeConfig:
    """Return a configuration of the sim engine that spans two pods."""
    config = sim_config(serving={"group_port": free_port()})
    return config.model_copy(update={"parallelism": ParallelismConfig(tensor=2, nodes=2)})


async def test_single_pod_creates_its_engine_directly() -> None:
    async with lead_peers(sim_config(), ALONE, ReportBoard("0" * 64), Signals(), create_engine) as make:
        assert make is create_engine


async def test_engine_of_two_pods_runs_each_verb_in_both_pods() -> None:
    config, signals = two_pod_config(), Signals()
    boards = [ReportBoard("0" * 64) for _ in range(2)]
    topology, bucket = Topology(1, 2, HOST), Bucket(1, 128, 0)
    async with lead_peers(config, Topology(0, 2, HOST), boards[0], signals, create_engine) as make:
        rank = follow_leader(config, topology, boards[1], signals, lambda: create_engine_rank(config, 1))
        following = asyncio.create_task(rank)
        engine = cast("ProfilingEngine", make(config))

        def start() -> int:
            engine.load(lambda: None)
            engine.allocate(8)
            engine.use_plan(BucketPlan((bucket,), ()))
            engine.warm(BucketPhase.PROMPT, bucket)
            return engine.capture(BucketPhase.PROMPT, bucket)

        assert await run_in_worker_thread(start) > 0
        assert boards[1].report().phase is Phase.CAPTURING
        engine.start_serving()
        while (report := boards[1].report()).phase is not Phase.SERVING:
            await boards[1].wait_for_update(report.sequence, 60)
        await engine.close()
    await following


async def test_rank_with_the_same_configuration_joins_and_reports_progress() -> None:
    config, board, signals = two_pod_config(), ReportBoard("0" * 64), Signals()
    hello = HelloMessage(rank=1, config=message_config_digest(config))
    async with (
        lead_peers(config, Topology(0, 2, HOST), board, signals, create_engine),
        connect_rank(config.serving.group_port, hello) as rank,
    ):
        for update in (UpdateMessage(moved=True), UpdateMessage(closing=True)):
            rank.send(update)
        while not signals.closing:  # noqa: ASYNC110 - the signals have no event for it
            await asyncio.sleep(0)
        assert await rank.reader.readline() == b"{}\n"
