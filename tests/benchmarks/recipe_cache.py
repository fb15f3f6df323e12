"""The warm-up of a second pod that uses the recipes of the first: vllm engine on the CPU, code by Inductor.

    python -m tests.benchmarks.recipe_cache

Both pods are real runtime processes that run one after the other. Each has an empty folder as its own disk, and they
share another folder. The exit code is 1 if a limit is missed.
"""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig, SharedRecipesConfig
from gaudi_runtime.contract.report import Phase, SharedRecipesOutcome, WarmupReport
from tests.benchmarks.figures import Figure, table
from tests.unit.runtime.runtime_process import runtime_process
from tests.vllm.configs import vllm_config

LEAST_RATIO = 3
"""The minimum ratio of the first warm-up to the second."""


@dataclass(frozen=True)
class Start:
    """One start: the seconds from process start to serving, and the part of these seconds from the first compile on."""

    seconds: float
    warmup_seconds: float
    report: WarmupReport


def config(folder: Path) -> RuntimeConfig:
    """Return a configuration of the vllm engine with graphs of 1, 2, 64 and 128 tokens, on folders below `folder`."""
    shared = SharedRecipesConfig(path=str(folder / "shared"), limit_bytes=2**34, max_age_seconds=86_400)
    whole = vllm_config(folder / "model", folder / "disk", ExecutionMode.TORCH_COMPILE)
    return whole.model_copy(update={"recipe_cache_dir": str(folder / "disk"), "shared_recipes": shared})


def start(folder: Path) -> Start:
    """Run a pod with an empty disk until it serves."""
    shutil.rmtree(folder / "disk", ignore_errors=True)
    with runtime_process(folder, config(folder)) as runtime:
        reports = runtime.follow(Phase.SERVING)
    compiling = next(each for each in reports if each.phase is Phase.COMPILING)
    served = reports[-1]
    return Start(served.elapsed_seconds, served.elapsed_seconds - compiling.elapsed_seconds, served)


def measure(folder: Path) -> list[Figure]:
    """Return all figures of one run."""
    make_checkpoint(folder / "model", "llama")
    (folder / "shared").mkdir()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "disk" / "inductor")
    first, second = start(folder), start(folder)
    outcomes = [each.report.shared_recipes and each.report.shared_recipes.outcome for each in (first, second)]
    assert outcomes == [SharedRecipesOutcome.SEEDED, SharedRecipesOutcome.HIT], outcomes
    files = [file for file in (folder / "shared").rglob("*") if file.is_file()]
    return [
        Figure("warm-up of the first pod", first.warmup_seconds, "s"),
        Figure("warm-up of the second pod", second.warmup_seconds, "s", first.warmup_seconds / LEAST_RATIO),
        Figure("start to serving of the first pod", first.seconds, "s"),
        Figure("start to serving of the second pod", second.seconds, "s"),
        Figure("seconds saved, by the second pod's report", second.report.recipe_seconds_saved, "s"),
        Figure("shared recipes", sum(file.stat().st_size for file in files) / 2**20, "MiB"),
        Figure("files of shared recipes", len(files), ""),
    ]


def main() -> int:
    """Print the table. Return 1 if a limit was missed."""
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder))
    sys.stdout.write(f"{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
