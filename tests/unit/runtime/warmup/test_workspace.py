"""The workspace of the largest buckets, which is allocated before the memory is divided for graphs.

The figures come from a server's log: its first executed decode bucket took 10.61 GiB, and the other 41 took nothing.
"""

import threading
from typing import Any

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, WarmupReport
from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.errors import DeviceOutOfMemory, PlanImpossible
from gaudi_runtime.memory_split import DeviceMemorySplit
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.units import GIB
from gaudi_runtime.warmup.runner import warm_up
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.warmup.virtual import VirtualClock

QUERIES = (128, 256, 384, 512, 640, 768, 896, 1024, 1408, 1792, 2304, 3072, 4096)
BLOCKS = (128, 256, 384, 512, 640, 768, 896, 1024, 1408, 1792, 2432, 3328, 4352, 5746)
PLAN = BucketPlan(
    prompt=tuple(Bucket(1, query, 0) for query in QUERIES),
    decode=tuple(Bucket(size, 1, blocks) for size in (1, 2, 4) for blocks in BLOCKS),
)
WORKSPACE = int(10.61 * GIB)


class Card(SimEngine):
    """A card with `free` bytes. Its first executed or captured decode bucket takes the workspace."""

    def __init__(self, config: RuntimeConfig, free: int) -> None:
        super().__init__(config, VirtualClock().sleep)
        self.free, self.workspace = free, WORKSPACE

    def memory(self) -> DeviceMemory:
        """Return the memory that neither the workspace nor graphs have taken."""
        return DeviceMemory(free=self.free, total=96 * GIB)

    def execute(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Take the workspace of decode buckets."""
        self._take_workspace(phase)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Take the workspace if no decode bucket was executed before. A prompt graph takes 20 MiB."""
        free_before = self.free
        self._take_workspace(phase)
        self.free -= 20 * 2**20 if phase is BucketPhase.PROMPT else 0
        return free_before - self.free

    def _take_workspace(self, phase: BucketPhase) -> None:
        if phase is BucketPhase.DECODE:
            if self.free < self.workspace:
                raise DeviceOutOfMemory("no memory is left")
            self.free, self.workspace = self.free - self.workspace, 0


def warm_up_card(card_type: type[Card], free: float) -> WarmupReport:
    config, clock = sim_config(max_model_len=8192, max_num_batched_tokens=8192), VirtualClock()
    engine: Any = card_type(config, int(free * GIB))
    board = ReportBoard("0" * 64, clock)
    engine.use_plan(PLAN)
    split = DeviceMemorySplit(free=engine.free, usable=engine.free, graphs=0, kv_cache=0, margin=0)
    warm_up(config, engine, PLAN, split, 5746, board, threading.Event(), clock)
    return board.report()


@pytest.mark.parametrize("free", [21.06, 15, 11.5])
async def test_workspace_of_the_reference_log_leaves_out_no_decode_graph(free: float) -> None:
    report = warm_up_card(Card, free)
    assert (report.decode.captured, report.decode.planned) == (42, 42)


async def test_report_has_the_bytes_of_the_workspace() -> None:
    assert warm_up_card(Card, 15).workspace_bytes == WORKSPACE


async def test_workspace_without_memory_names_bucket_and_remedy() -> None:
    with pytest.raises(PlanImpossible) as failed:
        warm_up_card(Card, 10)
    assert str(failed.value) == (
        "The workspace of decode bucket (4, 1, 5746) does not fit into the device memory: no memory is left. Lower "
        "engine.deviceMemoryUtilizationPercent, or plan smaller buckets."
    )
