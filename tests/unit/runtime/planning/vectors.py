"""Plans of the public planners: inputs and answers in tests/data/bucketing.json.

The section Vectors in docs/internals/bucketing.md describes the plans.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.planning.bare_limits import policy_from_env

DATA = Path(__file__).parents[3] / "data"
VECTORS = json.loads((DATA / "bucketing.json").read_text())


def limits_of(case: dict[str, Any]) -> Limits:
    return Limits(
        max_model_len=case["max_model_len"],
        max_num_seqs=case["max_num_seqs"],
        max_num_prefill_seqs=case["max_num_prefill_seqs"],
        max_num_batched_tokens=case["max_num_batched_tokens"],
        block_size=case["block_size"],
        contiguous_paged_attention=case["contiguous_pa"],
        prefix_caching=True,
    )


def policy_of(case: dict[str, Any]) -> BucketPolicy:
    return policy_from_env(Strategy(case["strategy"]), case["env"])


def digest(buckets: tuple[Bucket, ...]) -> str:
    return hashlib.sha256(json.dumps(buckets, separators=(",", ":")).encode()).hexdigest()
