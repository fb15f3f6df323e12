"""Plans of the public planners: inputs and answers in tests/data/bucketing.json.

The section Vectors in docs/internals/bucketing.md describes the plans.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.knobs.table import knobs

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
    """Return the policy whose fields own the variables that the public planner got."""
    policy: dict[str, Any] = {"strategy": case["strategy"]}
    for name, value in case["env"].items():
        _, phase, dimension, setting = knobs()[name].use[0].split(".")
        policy.setdefault(phase, {}).setdefault(dimension, {})[setting] = value
    return BucketPolicy.model_validate(policy)


def digest(buckets: tuple[Bucket, ...]) -> str:
    return hashlib.sha256(json.dumps(buckets, separators=(",", ":")).encode()).hexdigest()
