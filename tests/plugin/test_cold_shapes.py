"""What warmup.failOnColdShapes does on the plugin's own code, under torch.compile."""

from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.config import RuntimeConfig, WarmupConfig
from tests.plugin.cases import COMPILE, Case, configured
from tests.plugin.engine import Facts, Run, in_own_process

ONE_SHAPE = "(1, 128, 0)\n([1, 2, 4], 1, [8, 16, 24])"
WARM, COLD = list(range(100)), list(range(300))


async def serve_warm_and_cold(run: Run) -> Facts:
    await run.start()
    warm = run.answer([WARM], 5)
    try:
        return {"warm": warm, "cold": run.answer([COLD], 5), "failed": None}
    except RuntimeError as error:
        return {"warm": warm, "cold": None, "failed": str(error)}


def asked(checkpoint: Path, *, fail: bool) -> RuntimeConfig:
    """Prompts of at most 128 tokens are warmed up."""
    config = configured(Case(Strategy.LINEAR, False, True, "llama", COMPILE), checkpoint)
    policy = BucketPolicy(strategy=Strategy.FILE, file=ONE_SHAPE)
    return config.model_copy(update={"bucketing": policy, "warmup": WarmupConfig(fail_on_cold_shapes=fail)})


@pytest.mark.parametrize("fail", [True, False])
def test_cold_shape_ends_the_engine_where_that_is_asked(
    checkpoints: dict[str, Path], tmp_path: Path, fail: bool
) -> None:
    facts = in_own_process(serve_warm_and_cold, asked(checkpoints["llama"], fail=fail), tmp_path)
    assert len(facts["warm"][0]) == 5
    assert (facts["cold"] is None) == fail
    assert "fail_on_recompile" in (facts["failed"] or "") if fail else facts["failed"] is None
