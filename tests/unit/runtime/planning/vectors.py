"""Plans of the public planners: inputs and answers in tests/data/bucketing.json.

The section Vectors in docs/internals/planning.md describes the plans.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.knobs.fields import PAD_LIMITS

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
    """Return the policy with the variables that the public planner got."""
    policy: dict[str, Any] = {"strategy": case["strategy"]}
    for name, value in case["env"].items():
        variable, _, setting = name.partition("_BUCKET_")
        _, phase, dimension = PAD_LIMITS[f"{variable}_BUCKET_PAD_MAX"].split(".")
        policy.setdefault(phase, {}).setdefault(dimension, {})[to_camel(setting.lower())] = value
    return BucketPolicy.model_validate(policy)


def digest(buckets: tuple[Bucket, ...]) -> str:
    return hashlib.sha256(json.dumps(buckets, separators=(",", ":")).encode()).hexdigest()
