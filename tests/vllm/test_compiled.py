"""Compiled shapes on a CPU: warm-up, recompile counts and processes. A compilation takes seconds, as on a card."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig, SharedRecipesConfig
from gaudi_runtime.contract.report import Phase, SharedRecipesOutcome, WarmupReport
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until
from tests.vllm.configs import MODEL, vllm_config


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The caches of compiled code that all runtimes of this file share."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "shared").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "recipes" / "inductor"))
        yield folder


def config_of(checkpoint: Path, folder: Path) -> RuntimeConfig:
    """Return a configuration with graphs of 1, 64 and 128 tokens.

    A step may have up to 192 tokens, and no bucket covers 192 tokens.
    """
    shared = SharedRecipesConfig(path=str(folder / "shared"), limit_bytes=2**34, max_age_seconds=86_400)
    config = vllm_config(
        checkpoint,
        folder,
        ExecutionMode.TORCH_COMPILE,
        max_num_seqs=1,
        max_num_batched_tokens=192,
    )
    policy = BucketPolicy(strategy=Strategy.FILE, file="(1, 64, 0)\n(1, 128, 0)\n(1, 1, 16)\n(1, 1, 32)")
    # With allowGaps, a gap is no error.
    with_gaps = config.limits.model_copy(update={"gapless": None})
    return config.model_copy(update={"shared_recipes": shared, "bucketing": policy, "limits": with_gaps})


def warmed_counts(reports: list[WarmupReport]) -> list[int]:
    return [report.prompt.warmed + report.decode.warmed for report in reports]


def hits_and_misses(runtime: RuntimeProcess) -> tuple[int, int]:
    """Return the numbers of batches with and without a warm graph."""
    phases = runtime.report().served
    return phases.prompt.hits + phases.decode.hits, phases.prompt.misses + phases.decode.misses


def test_cold_shape_is_counted_and_no_process_survives_sigkill(checkpoint: Path, caches: Path) -> None:
    with runtime_process(caches, config_of(checkpoint, caches)) as runtime:
        reports = runtime.follow(Phase.SERVING)
        assert warmed_counts(reports) == sorted(warmed_counts(reports))
        assert {0, 1, 2} < set(warmed_counts(reports)), "progress is seen bucket by bucket"
        ready = reports[-1]
        assert ready.prompt.captured == ready.prompt.planned == 2
        assert ready.decode.captured == ready.decode.planned > 0
        assert ready.shared_recipes
        assert ready.shared_recipes.outcome is SharedRecipesOutcome.SEEDED
        with OpenAI(base_url=f"{runtime.model_url}/v1", api_key="none", max_retries=0) as openai:
            openai.completions.create(model=MODEL, prompt=[7] * 50, max_tokens=4, extra_body={"ignore_eos": True})
            wait_until(lambda: hits_and_misses(runtime)[0] >= 4)
            assert (hits_and_misses(runtime)[1], runtime.report().recompiles_since_ready) == (0, 0)

            openai.completions.create(model=MODEL, prompt=[7] * 150, max_tokens=4)
            wait_until(lambda: runtime.report().recompiles_since_ready == 1)
            assert [tuple(each.shape)[1] for each in runtime.report().cold_shapes] != []

        below = psutil.Process(runtime.process.pid).children(recursive=True)
        runtime.signal(signal.SIGKILL)
        runtime.exit_code()
        wait_until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in below))


def test_pod_with_an_empty_disk_starts_from_shared_recipes(checkpoint: Path, caches: Path) -> None:
    shutil.rmtree(caches / "recipes")
    with runtime_process(caches, config_of(checkpoint, caches)) as runtime:
        ready = runtime.follow(Phase.SERVING)[-1]
    assert ready.shared_recipes
    assert ready.shared_recipes.outcome is SharedRecipesOutcome.HIT
    assert (ready.prompt.cached, ready.decode.cached) == (ready.prompt.planned, ready.decode.planned)
    assert ready.recipe_seconds_saved > 0
