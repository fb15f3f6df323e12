"""The checks of a plan in a pod: before the model is fetched, and with the real KV blocks."""

from typing import Any

import pytest

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.config import EngineConfig, EngineName, ExecutionMode, RuntimeConfig, WarmupConfig
from gaudi_runtime.contract.report import CapturableGraphsReport, PlanGapsReport
from gaudi_runtime.errors import BucketsMissing, PlanImpossible
from gaudi_runtime.plan_check import capturable_plan_graphs, check_plan_before_fetch, find_plan_gaps
from gaudi_runtime.planning.planner import make_plan_for_device
from tests.support.policies import EXPONENTIAL
from tests.unit.runtime.configs import sim_config

LONG = Limits(
    max_model_len=131_072,
    max_num_seqs=4,
    max_num_batched_tokens=8192,
    prefix_caching=True,
    contiguous_paged_attention=False,
    splits_prompts=True,
    gapless=True,
)
CARD = EngineConfig(name=EngineName.VLLM, device="hpu", execution_mode=ExecutionMode.HPU_GRAPHS)
FEW_BLOCKS = "(1, 2048, 0)\n(4, 1, 100)"


def config(limits: Limits = LONG, **fields: Any) -> RuntimeConfig:
    return sim_config().model_copy(update={"limits": limits, "bucketing": EXPONENTIAL, "engine": CARD, **fields})


def test_prompt_computed_as_nan_is_refused() -> None:
    with pytest.raises(PlanImpossible) as refused:
        check_plan_before_fetch(config(), {})
    assert str(refused.value).startswith(
        "prompt bucket (1, 8192, 978) has an attention bias of 2185232384 bytes for each prompt. With 2147483648 or "
        "more bytes, the fused attention kernel returns NaN without an error (measured on Gaudi 3). Lower "
        "engine.maxNumBatchedTokens to 7680, or"
    )


@pytest.mark.parametrize("tokens", [7680, 4096])
def test_computable_prompts_are_accepted(tokens: int) -> None:
    check_plan_before_fetch(config(LONG.model_copy(update={"max_num_batched_tokens": tokens})), {})


def test_variable_of_the_process_enables_tiled_queries() -> None:
    check_plan_before_fetch(config(), {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "true"})


def test_impossible_policy_is_refused_before_the_fetch() -> None:
    with pytest.raises(PlanImpossible, match="the bucket file has no prompt bucket"):
        check_plan_before_fetch(config(bucketing=BucketPolicy(strategy="file", file="(1, 1, 8)")), {})


def found_gaps(blocks: DeviceBlocks, *, gapless: bool | None, enabled: bool = True) -> PlanGapsReport:
    limits = Limits(
        max_model_len=2048,
        max_num_seqs=4,
        max_num_batched_tokens=2048,
        block_size=16,
        contiguous_paged_attention=False,
        gapless=gapless,
    )
    policy = BucketPolicy(strategy="file", file=FEW_BLOCKS)
    found = config(limits, bucketing=policy, warmup=WarmupConfig(enabled=enabled))
    return find_plan_gaps(make_plan_for_device(policy, limits, blocks), found, blocks)


def test_batches_of_the_real_blocks_without_a_bucket_are_refused() -> None:
    with pytest.raises(BucketsMissing, match="of the decode shapes that the limits admit have no bucket"):
        found_gaps(DeviceBlocks(200, 16, 16), gapless=True)


def test_fewer_real_blocks_leave_no_gap() -> None:
    assert found_gaps(DeviceBlocks(100, 16, 16), gapless=True) == PlanGapsReport()


@pytest.mark.parametrize(("gapless", "enabled"), [(None, True), (True, False)])
def test_allowed_gaps_are_reported(gapless: bool | None, enabled: bool) -> None:
    found = found_gaps(DeviceBlocks(200, 16, 16), gapless=gapless, enabled=enabled)
    assert (found.prompt, found.decode) == (0, 1)
    assert found.message is not None
    assert "decode shapes" in found.message


def capturable(**fields: Any) -> CapturableGraphsReport:
    limits = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=512, splits_prompts=True, block_size=128)
    policy = BucketPolicy.model_validate(
        {
            "strategy": "linear",
            "prompt": {"query": {"min": 128, "step": 128, "max": 512}, "context": {"min": 0, "step": 1, "max": 3}},
        }
    )
    plan = make_plan_for_device(policy, limits, DeviceBlocks.from_limits(32, limits))
    found = capturable_plan_graphs(plan, config(limits, bucketing=policy, **fields), limits)
    assert len(plan.prompt) == 16
    assert found.decode == len(plan.decode)
    return found


def test_prompts_above_a_step_get_no_graph() -> None:
    assert capturable().prompt == 10


@pytest.mark.parametrize(("tokens", "prompts"), [(1024, 16), (256, 3), (64, 0)])
def test_limit_of_graph_tokens_replaces_the_step(tokens: int, prompts: int) -> None:
    assert capturable(warmup=WarmupConfig(max_graph_tokens=tokens)).prompt == prompts


@pytest.mark.parametrize(
    "change",
    [{"name": EngineName.SIM}, {"device": "cpu"}, {"execution_mode": ExecutionMode.TORCH_COMPILE}],
    ids=str,
)
def test_other_engines_and_modes_have_no_limit(change: dict[str, Any]) -> None:
    engine = CARD.model_copy(update=change)
    assert capturable(engine=engine, warmup=WarmupConfig(max_graph_tokens=64)).prompt == 16
