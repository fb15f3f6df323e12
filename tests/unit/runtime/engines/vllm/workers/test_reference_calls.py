"""The runtime's calls of vLLM's plugin in the order of the reference log, compared with a reviewed golden file."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig, WarmupConfig
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.engines.sim.reference import LOGGED_ORDERS, reference_config
from tests.unit.runtime.engines.vllm.workers.card import GIB, MIB, Card
from tests.unit.runtime.engines.vllm.workers.driven import drive, drive_plan
from tests.unit.runtime.engines.vllm.workers.stand_in import bridge, plugin

LOGS = json.loads((Path(__file__).parents[5] / "data" / "reference_plans.json").read_text())
MODES = {
    ExecutionMode.HPU_GRAPHS: (True, True),
    ExecutionMode.TORCH_COMPILE: (False, True),
    ExecutionMode.LAZY: (True, False),
    ExecutionMode.EAGER: (False, False),
}


def seeds_card() -> Card:
    """Return a card with the graph sizes of logs 000 and 002."""
    return Card(per_prompt_token=int(1.43 * MIB), per_decode_graph=int(3.37 * MIB))


def seeds_plugin(card: Card) -> Any:
    """Return a plugin with the margin of the log: 79.16 GiB are free, and half of this memory is usable."""
    runner = plugin(card)
    runner.mem_margin = 39.58 * GIB
    return runner


async def test_seeds_000_and_002_call_the_plugin_bucket_by_bucket(snapshot: SnapshotAssertion) -> None:
    card = seeds_card()
    drive(reference_config(), HpuVerbs(seeds_plugin(card), bridge(card)), card)
    assert "\n".join(card.log) == snapshot


async def test_seeds_001_and_003_call_the_plugin_for_every_context(snapshot: SnapshotAssertion) -> None:
    prompt, decode = (LOGS[f"release_1_22_context_{phase}"] for phase in ("prompt", "decode"))
    plan = BucketPlan(tuple(Bucket(*each) for each in prompt), tuple(Bucket(*each) for each in decode))
    card = Card()
    config = sim_config(warmup=WarmupConfig(**LOGGED_ORDERS))
    drive_plan(plan, config, HpuVerbs(plugin(card), bridge(card)), card)
    assert "\n".join(card.log) == snapshot


async def test_seeds_000_and_002_end_with_the_logged_graphs() -> None:
    card = seeds_card()
    report = drive(reference_config(), HpuVerbs(seeds_plugin(card), bridge(card)), card)
    assert (report.prompt.captured, report.decode.captured) == (15, 48)
    assert report.prompt.graph_bytes / GIB == pytest.approx(13.94, abs=0.01)


async def test_seeds_000_and_002_never_go_below_the_margin() -> None:
    card = seeds_card()
    drive(reference_config(), HpuVerbs(seeds_plugin(card), bridge(card)), card)
    assert card.free > 39.58 * GIB


@pytest.mark.parametrize("mode", MODES)
async def test_calls_of_each_execution_mode_equal_the_snapshot(
    mode: ExecutionMode, snapshot: SnapshotAssertion
) -> None:
    lazy, graphs = MODES[mode]
    card = Card(lazy=lazy)
    config: RuntimeConfig = sim_config(mode=mode)
    verbs = HpuVerbs(plugin(card, graphs=graphs), bridge(card))
    assert verbs.describe()["execution_mode"] == mode.value
    drive(config, verbs, card)
    assert "\n".join(card.log) == snapshot
