"""A warning names each valid setting without effect, and the part that ignores this setting."""

from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.knobs.setting_errors import ignored_knobs, ignored_settings
from gaudi_runtime.knobs.table import Knob, KnobHome, knobs
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
from tests.unit.runtime.knobs.configs import vllm_config


def ignored(name: str, value: str, **sections: Any) -> list[str]:
    engine = {**sections.pop("engine", {}), "settings": {name: value}}
    return list(ignored_knobs(vllm_config(engine=engine, **sections)))


def test_setting_that_the_engine_reads_is_not_reported() -> None:
    assert ignored("VLLM_DEFRAG_THRESHOLD", "8") == []


@pytest.mark.parametrize(
    ("engine", "who"),
    [
        ({"name": "sim"}, "the sim engine on device hpu"),
        ({"name": "vllm", "device": "cpu"}, "the vllm engine on device cpu"),
    ],
    ids=["sim", "vllm"],
)
def test_setting_ignored_by_the_engine_is_reported(engine: dict[str, str], who: str) -> None:
    assert ignored("VLLM_DEFRAG_THRESHOLD", "8", engine=engine) == [
        f"engine.settings VLLM_DEFRAG_THRESHOLD is ignored by {who}"
    ]


def test_setting_ignored_by_the_strategy_is_reported() -> None:
    assert ignored("VLLM_HPU_FSDPA_SLICE_ENABLED", "true", bucketing={"strategy": "exponential"}) == [
        "engine.settings VLLM_HPU_FSDPA_SLICE_ENABLED is ignored by the Exponential strategy: this setting "
        "needs PaddingAware"
    ]


def test_setting_ignored_by_the_mode_is_reported() -> None:
    assert ignored("VLLM_T_COMPILE_FULLGRAPH", "true", engine={"executionMode": "hpuGraphs"}) == [
        "engine.settings VLLM_T_COMPILE_FULLGRAPH is ignored by execution mode HpuGraphs: this setting "
        "needs TorchCompile"
    ]


def test_field_ignored_by_the_mode_is_reported() -> None:
    config = vllm_config(engine={"executionMode": "eager"}, warmup={"failOnColdShapes": True})
    assert list(ignored_knobs(config)) == [
        "engine.settings VLLM_FULL_WARMUP is ignored by execution mode Eager: this setting needs HpuGraphs or "
        "TorchCompile"
    ]


@pytest.mark.parametrize("mode", ["hpuGraphs", "torchCompile"])
def test_fail_on_cold_shapes_is_not_ignored_in_graph_modes(mode: str) -> None:
    config = vllm_config(engine={"executionMode": mode}, warmup={"failOnColdShapes": True})
    assert list(ignored_knobs(config)) == []


def test_field_that_only_a_card_reads_is_reported() -> None:
    cpu = {"device": "cpu", "executionMode": "torchCompile"}
    config = vllm_config(engine=cpu, warmup={"failOnColdShapes": True})
    assert list(ignored_knobs(config)) == [
        "engine.settings VLLM_FULL_WARMUP is ignored by device cpu: this setting needs hpu"
    ]


def test_graph_share_is_ignored_without_capture() -> None:
    config = vllm_config(
        engine={"name": "sim", "executionMode": "eager"}, warmup={"promptRatio": 0.5, "promptOrder": "maxBs"}
    )
    assert list(ignored_knobs(config)) == [
        "engine.settings VLLM_GRAPH_PROMPT_RATIO is ignored by execution mode Eager: this setting needs HpuGraphs or "
        "TorchCompile"
    ]


def test_wrong_setting_causes_no_warning() -> None:
    assert ignored("VLLM_USE_V1", "1") == []


# Leave out knobs with several uses. For example, VLLM_PROMPT_BS_BUCKET_MAX is also the maximum number of prompts in a
# step, and every strategy reads this maximum.
FIELDS = [knob for knob in knobs().values() if knob.home is KnobHome.FIELD and len(knob.use) == 1]
RANGES = [knob for knob in FIELDS if knob.use[0].startswith(("bucketing.prompt.", "bucketing.decode."))]


@pytest.mark.parametrize("knob", RANGES, ids=lambda knob: knob.name)
@pytest.mark.parametrize("strategy", RANGED_STRATEGIES)
def test_table_and_planner_agree_on_ranges_that_a_strategy_reads(knob: Knob, strategy: Strategy) -> None:
    _, phase, dimension, setting = knob.use[0].split(".")
    policy = BucketPolicy.model_validate({"strategy": strategy, phase: {dimension: {setting: 8}}})
    long = Limits(max_model_len=8192, max_num_seqs=8, max_num_batched_tokens=8192, prefix_caching=True)
    read = not list(ignored_settings(policy, long))
    assert read == (strategy in knob.needs.get("strategy", tuple(Strategy)))
