"""A bucket that runs without a graph is listed, does not count as captured, and does not end its phase."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, WarmupReport
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.errors import GraphRefused, ShapeRefused
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.warmup.virtual import VirtualClock, start_on_virtual_clock

REFUSED = Bucket(1, 256, 0)


class Refusing(SimEngine):
    """An engine that refuses the graph of one prompt bucket, with an error of the class `kind`."""

    def __init__(self, config: RuntimeConfig, clock: VirtualClock, kind: type[Exception] = GraphRefused) -> None:
        super().__init__(config, clock.sleep)
        self.asked: list[Bucket] = []
        self._kind = kind

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Refuse the bucket REFUSED."""
        self.asked.append(bucket)
        if bucket == REFUSED:
            raise self._kind("prompts of this length run without one")
        return super().capture(phase, bucket)


def started(kind: type[Exception] = GraphRefused) -> tuple[WarmupReport, Refusing]:
    clock, config = VirtualClock(), sim_config()
    engine = Refusing(config, clock, kind)
    return start_on_virtual_clock(config, clock, engine), engine


async def test_refused_graph_is_not_counted_as_captured() -> None:
    report, _ = started()
    assert (report.prompt.planned, report.prompt.warmed, report.prompt.captured) == (4, 4, 3)


async def test_refused_graph_is_listed_with_the_engines_reason() -> None:
    report, _ = started()
    assert [(each.phase, each.bucket, each.reason) for each in report.skipped] == [
        (BucketPhase.PROMPT, REFUSED, "prompts of this length run without one")
    ]


async def test_graph_above_a_limit_of_the_spec_is_left_out() -> None:
    report, _ = started()
    assert (report.prompt.left_out_by_limit, report.prompt.failed) == (1, 0)


async def test_graph_that_fails_for_another_reason_counts_as_failed() -> None:
    report, _ = started(ShapeRefused)
    assert (report.prompt.left_out_by_limit, report.prompt.failed) == (0, 1)


async def test_buckets_after_a_refused_graph_are_captured() -> None:
    report, engine = started()
    assert engine.asked.index(REFUSED) < engine.asked.index(Bucket(1, 512, 0))
    assert report.decode.captured == report.decode.planned


async def test_refused_graph_is_tried_once() -> None:
    _, engine = started()
    assert engine.asked.count(REFUSED) == 1


async def test_refused_graph_takes_no_bytes() -> None:
    report, engine = started()
    others = start_on_virtual_clock(sim_config(), VirtualClock())
    assert 0 < report.prompt.graph_bytes < others.prompt.graph_bytes
    assert engine.captures_graphs
