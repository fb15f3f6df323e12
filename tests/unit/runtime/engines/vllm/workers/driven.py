"""The runtime's orchestrator with the HPU verbs: a complete start-up with the fake plugin, without waiting."""

import json
import threading
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, VisionBucket, WarmupReport
from gaudi_runtime.engine_protocol.engine import DeviceMemory, Progress
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, ShapeRefused
from gaudi_runtime.memory_split import split_memory
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.warmup.runner import warm_up
from tests.unit.runtime.engines.vllm.workers.card import GIB, Card
from tests.unit.runtime.engines.vllm.workers.stand_in import KV_BLOCKS, bridge, plugin
from tests.unit.runtime.warmup.virtual import VirtualClock, start_on_virtual_clock

PROMPT, DECODE = [2, 256, 0], [4, 1, 64]


def verbs_on(card: Card, runner: Any = None, **made: Any) -> HpuVerbs:
    """Return the verbs of a worker on this card, with a plan of two prompt buckets and one decode bucket."""
    verbs = HpuVerbs(runner or plugin(card, **made), bridge(card))
    verbs.plan([PROMPT, [1, 128, 0]], [DECODE])
    card.log.clear()
    return verbs


def plain(answer: Any) -> Any:
    """Check that an answer can be serialized between worker and runtime, and return the deserialized answer."""
    copied = json.loads(json.dumps(answer))
    assert copied == answer
    return copied


class DrivenEngine(SimEngine):
    """An engine that loads and serves like the simulation. All other calls go to the verbs, like remote calls."""

    def __init__(self, config: RuntimeConfig, clock: VirtualClock, verbs: HpuVerbs, card: Card) -> None:
        super().__init__(config, clock.sleep)
        self.verbs, self.card = verbs, card
        self.captures_graphs = plain(verbs.describe())["captures_graphs"]

    def profile(self) -> DeviceMemory:
        """Return the free memory in the reference log."""
        return DeviceMemory(free=round(79.16 * GIB), total=self.card.total)

    def allocate(self, kv_blocks: int) -> None:
        """Set the free memory to the value in the reference log. vLLM allocates before it calls the verbs."""
        self.card.free = round(55.43 * GIB)

    def memory(self) -> DeviceMemory:
        return DeviceMemory(**plain(self.verbs.memory()))

    def use_plan(self, plan: BucketPlan) -> None:
        answer = plain(self.verbs.plan([list(each) for each in plan.prompt], [list(each) for each in plan.decode]))
        self.vision = tuple(VisionBucket(*each) for each in answer.get("vision", ()))

    def use_warm_buckets(self, plan: BucketPlan) -> None:
        super().use_warm_buckets(plan)
        plain(self.verbs.use_warm([list(each) for each in plan.prompt], [list(each) for each in plan.decode]))

    def vision_buckets(self) -> tuple[VisionBucket, ...]:
        return self.vision

    def warm_vision(self, bucket: VisionBucket) -> int:
        return int(self._outcome(self.verbs.warm_vision(*bucket))["bytes"])

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        self._outcome(self.verbs.warm(phase.value, list(bucket)))

    def execute(self, phase: BucketPhase, bucket: Bucket) -> None:
        self._outcome(self.verbs.execute(phase.value, list(bucket)))

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        outcome = self._outcome(self.verbs.capture(phase.value, list(bucket)))
        if not outcome["graph"]:
            raise GraphRefused("no graph of this shape")
        return int(outcome["bytes"])

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Warm the sampler for all batch sizes with one verb."""
        if batch_size == 0:
            plain(self.verbs.sampler())

    def warm_defragmenter(self, progress: Progress) -> bool:
        return bool(plain(self.verbs.defragmenter())["done"])

    def _outcome(self, answer: Any) -> dict[str, Any]:
        outcome = plain(answer)
        if outcome["out_of_memory"]:
            raise DeviceOutOfMemory(outcome["out_of_memory"])
        if "ran_as" in outcome:
            raise ShapeRefused(outcome["ran_as"])
        return dict(outcome)


def drive(config: RuntimeConfig, verbs: HpuVerbs, card: Card) -> WarmupReport:
    """Run a complete start-up and return the report. The card's log has the calls."""
    clock = VirtualClock()
    return start_on_virtual_clock(config, clock, DrivenEngine(config, clock, verbs, card))


def drive_plan(plan: BucketPlan, config: RuntimeConfig, verbs: HpuVerbs, card: Card) -> None:
    """Warm up a given plan."""
    clock = VirtualClock()
    engine = DrivenEngine(config, clock, verbs, card)
    engine.use_plan(plan)
    split = split_memory(card.free, config.engine.device_memory_utilization, config.warmup.graph_memory_share)
    warm_up(config, engine, plan, split, KV_BLOCKS, ReportBoard("0" * 64, clock), threading.Event(), clock)
