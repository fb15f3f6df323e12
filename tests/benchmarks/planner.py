"""The planner's speed: plans of 20,000 buckets, a lookup compared with a naive scan of the same plan, and counting.

    python -m tests.benchmarks.planner

Figures are processor time of this process, so other load hardly affects them. The exit code is 1 if a limit is missed.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.padding import Padding
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, make_padder
from tests.benchmarks.figures import Figure, table
from tests.support.policies import EXPONENTIAL

LIMITS = Limits(
    max_model_len=16_384,
    max_num_seqs=256,
    max_num_prefill_seqs=32,
    max_num_batched_tokens=16_384,
    prefix_caching=True,
)
KV_BLOCKS = 6_000
LOOKUPS, SCANS, REPEATS = 20_000, 300, 5
CONFIG = """
{"version": "v1", "model": {"path": "/models", "servedNames": ["tiny"]}, "engine": {"name": "sim"},
 "limits": {"maxModelLen": 2048, "maxNumSeqs": 4, "maxNumBatchedTokens": 2048}}
"""


def policies() -> dict[str, BucketPolicy]:
    """Return settings for which the ranged strategies plan about 20,000 buckets. Exponential plans fewer."""
    fine = PromptRanges(query=BucketingRangeSettings(step=128), context=BucketingRangeSettings(step=5))
    linear = DecodeRanges(batch_size=BucketingRangeSettings(step=16), blocks=BucketingRangeSettings(step=16))
    padded = PromptRanges(
        query=BucketingRangeSettings(pad_percent=0), context=BucketingRangeSettings(step=1, pad_percent=3)
    )
    return {
        "exponential": EXPONENTIAL,
        "linear": BucketPolicy(strategy=Strategy.LINEAR, prompt=fine, decode=linear),
        "paddingAware": BucketPolicy(strategy=Strategy.PADDING_AWARE, prompt=padded),
        "file": BucketPolicy(
            strategy=Strategy.FILE, file="(1, 128, 0)\n(1, 1, range(1, 2990))\n(2, 1, range(1, 2990))"
        ),
    }


def main() -> int:
    """Print the table. Return 1 if a limit was missed."""
    figures = [figure for name, policy in policies().items() for figure in _strategy(name, policy)]
    figures.append(Figure("count a served batch, 20,000 distinct shapes", _count_microseconds(), "us", 10.0))
    figures.append(Figure("the same with padding of a learned plan", _count_microseconds(learned=True), "us", 10.0))
    figures.append(Figure("gaudi-plan buckets -f - -o json, median", _command(), "s", 0.5))
    sys.stdout.write(f"{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


def _strategy(name: str, policy: BucketPolicy) -> list[Figure]:
    seconds = min(_seconds(lambda: make_plan(policy, LIMITS, KV_BLOCKS)) for _ in range(REPEATS))
    plan = make_plan(policy, LIMITS, KV_BLOCKS)
    count = len(plan.prompt) + len(plan.decode)
    wanted = _shapes(random.Random(1))  # noqa: S311
    return [
        Figure(f"{name}: plan of {count} buckets", seconds, "s", 1.0),
        Figure(f"{name}: find", _find_microseconds(plan, wanted), "us", 5.0),
        Figure(f"{name}: naive scan of the same plan", _scan_microseconds(plan, wanted[:SCANS]), "us"),
    ]


def _shapes(chance: random.Random) -> list[tuple[BucketPhase, int, int, int]]:
    """Return shapes that are spread evenly within the limits, half prompts and half decode batches.

    Some have no bucket.
    """
    prompts = [
        (BucketPhase.PROMPT, chance.randint(1, 32), chance.randint(1, 16_384), chance.randint(0, 127))
        for _ in range(LOOKUPS // 2)
    ]
    decodes = [(BucketPhase.DECODE, chance.randint(1, 256), 1, chance.randint(1, KV_BLOCKS)) for _ in prompts]
    return [shape for pair in zip(prompts, decodes, strict=True) for shape in pair]


def _count_microseconds(*, learned: bool = False) -> float:
    """Return the microseconds to count a step, including the lookup of the bucket.

    Distinct shapes are the worst case.
    """
    pad = make_padder(make_plan(EXPONENTIAL, LIMITS, KV_BLOCKS), LIMITS, lambda _phase, _bucket: True)
    batches = [(phase, Bucket(*shape)) for phase, *shape in _shapes(random.Random(1))]  # noqa: S311

    def count() -> None:
        histogram = ServingHistogram(pad)
        if learned:
            histogram.padding = {phase: Padding(typical_cost(128), {}, 1.0) for phase in BucketPhase}
        for phase, real in batches:
            histogram.count_batch(phase, real)

    return min(_seconds(count) for _ in range(REPEATS)) / len(batches) * 1e6


def _find_microseconds(plan: BucketPlan, wanted: list[tuple[BucketPhase, int, int, int]]) -> float:
    plan.find(*wanted[0])  # the first lookup of a phase builds its index
    plan.find(*wanted[1])
    seconds = min(_seconds(lambda: [plan.find(*each) for each in wanted]) for _ in range(REPEATS))
    return seconds / len(wanted) * 1e6


def _scan_microseconds(plan: BucketPlan, wanted: list[tuple[BucketPhase, int, int, int]]) -> float:
    for phase, *shape in wanted:
        if _scan(plan.buckets_of(phase), *shape) != plan.find(phase, *shape):
            raise AssertionError(f"find and scan differ for {phase} {shape}")
    seconds = _seconds(lambda: [_scan(plan.buckets_of(phase), *shape) for phase, *shape in wanted])
    return seconds / len(wanted) * 1e6


def _scan(buckets: tuple[Bucket, ...], batch: int, query: int, blocks: int) -> Bucket | None:
    return next((b for b in buckets if b[0] >= batch and b[1] >= query and b[2] >= blocks), None)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _command() -> float:
    """Return the median wall seconds of a whole call, including the interpreter."""
    script = Path(sys.executable).with_name("gaudi-plan")
    calls = sorted(_call(script) for _ in range(9))
    return calls[len(calls) // 2]


def _call(script: Path) -> float:
    started = time.perf_counter()
    subprocess.run(
        [script, "buckets", "-f", "-", "-o", "json"], input=CONFIG, text=True, capture_output=True, check=True
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
