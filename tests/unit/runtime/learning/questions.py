"""A small server with strategy Exponential and its traffic, for comparisons of plans."""

from typing import Any

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.learning.comparison import ComparisonInput
from gaudi_runtime.warmup.estimate import Pace, StepPace
from tests.support.policies import EXPONENTIAL

LIMITS = Limits(max_model_len=4096, max_num_seqs=64, max_num_batched_tokens=4096)
BLOCKS = DeviceBlocks.from_limits(2048, LIMITS)
TRAFFIC = "".join(
    f"prompt 1 {700 + 9 * at} 0 {at}\ndecode {at % 7 + 1} 1 {9 * (at % 7 + 1)} {90 * at}\n" for at in range(1, 40)
)
BUCKET_SECONDS = 2.0
BUCKET = StepPace(fixed=BUCKET_SECONDS, per_weight=0)


def question(seconds: float = 1000.0, other_seconds: float = 0.0, **fields: Any) -> ComparisonInput:
    """Return a question with a warm-up of `seconds`, of which `other_seconds` were not spent on buckets.

    Each bucket takes 2 s.
    """
    pace = Pace(seconds=seconds, other_seconds=other_seconds, prompt=BUCKET, decode=BUCKET)
    given = {
        "policy": EXPONENTIAL,
        "limits": LIMITS,
        "blocks": BLOCKS,
        "traffic": TRAFFIC,
        **fields,
    }
    return ComparisonInput(pace=pace, **given)
