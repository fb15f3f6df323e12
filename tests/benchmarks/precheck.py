"""The processor time of the precheck for the largest policies of each strategy.

    python -m tests.benchmarks.precheck

Figures are processor time of this process. The exit code is 1 if the p99 of a policy is above MOST_MS.
"""

import sys
import time
from contextlib import suppress

from gaudi_runtime.contract.bucketing import MOST_TEXT, BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.precheck import precheck
from tests.benchmarks.figures import Figure, percentile, table, without_pauses

MOST_MS = 60.0
REPEATS = 100
KV_BLOCKS = 2**31 - 1
LARGEST = Limits(
    max_model_len=16_000_000,
    max_num_seqs=65_536,
    max_num_prefill_seqs=65_536,
    max_num_batched_tokens=16_777_216,
    block_size=1,
    prefix_caching=True,
    gapless=True,
    contiguous_paged_attention=False,
)


def ranges(strategy: str) -> dict[str, object]:
    """Return ranges with nearly 10,000 values in each dimension."""
    values = {"min": 1, "step": 1, "max": 9_999}
    batches = {"min": 1, "step": 7, "max": 65_536}
    return {
        "strategy": strategy,
        "prompt": {"query": values, "context": {"min": 0, "step": 16_777_216}, "batchSize": {"min": 1, "step": 200}},
        "decode": {"blocks": values, "batchSize": batches},
    }


def file(*lines: str) -> dict[str, object]:
    """Return a bucket file with these lines."""
    return {"strategy": "file", "file": "\n".join(lines)}


def optimal(**settings: object) -> dict[str, object]:
    """Return strategy Optimal with these settings."""
    return {"strategy": "optimal", "optimal": settings}


PROMPTS = "\n".join(f"prompt 1 {query} 0 17" for query in range(1, 2_400))
TRAFFIC = f"{PROMPTS[: MOST_TEXT - 100].rpartition(chr(10))[0]}\ndecode 1 1 5 1\n"
POLICIES: dict[str, dict[str, object]] = {
    "linear, 10,000 values": ranges("linear"),
    "padding-aware, 10,000 values": ranges("paddingAware"),
    "exponential": {},
    "file of 1,000 lines": file(*["(1,16000000,9)"] * 999, "(65536,1,65536)"),
    "file of 5,000 buckets": file("(1,range(128,7680,128),range(0,83))", "(65536,1,65536)"),
    "file with a staircase": file(
        *(f"({number % 20 + 1},{64 * (990 - number)},{number})" for number in range(990)), "(65536,1,65536)"
    ),
    "file with long lists": file(*[f"([{','.join(['1'] * 1_249)}],1,1)"] * 4, "(1,16000000,9)"),
    "traffic of 2,400 lines": optimal(traffic=TRAFFIC),
    "budget of graphs": optimal(promptGraphs=20_000),
    "traffic and budget of seconds": optimal(traffic=TRAFFIC, warmupSeconds=604_800),
}


def measure(policy: BucketPolicy) -> float:
    """Return the p99 of the processor time of a check in milliseconds."""
    times = list[float]()
    for _ in range(REPEATS):
        began = time.process_time()
        with suppress(PlanImpossible):
            precheck(policy, LARGEST, KV_BLOCKS, refuses_gaps=True)
        times.append(1000 * (time.process_time() - began))
    return percentile(sorted(times), 99)


def main() -> int:
    """Print the figures. Return 1 if a limit is missed."""
    with without_pauses():
        figures = [
            Figure(f"precheck, {name}", measure(BucketPolicy.model_validate(policy)), "ms", MOST_MS)
            for name, policy in POLICIES.items()
        ]
    sys.stdout.write(f"{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
