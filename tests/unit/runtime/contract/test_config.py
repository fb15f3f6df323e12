"""The operator and the runtime both compute planHash, so their releases must agree for the same inputs."""

from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.config import plan_hash

POLICY = BucketPolicy.model_validate({"strategy": "linear", "prompt": {"query": {"min": 64, "step": 64, "max": 256}}})
LIMITS = Limits(max_model_len=256, max_num_seqs=4, max_num_batched_tokens=256)


class NextPolicy(BucketPolicy):
    """A policy with a new, unused field whose name sorts first."""

    a_new_field: str | None = None


class NextLimits(Limits):
    """Limits with a new, unused field whose name sorts first."""

    a_new_field: int | None = None


def test_hash_of_known_inputs_never_changes() -> None:
    """If this hash changed, runtime images of earlier releases would never pass the readiness gate."""
    assert plan_hash(POLICY, LIMITS) == "d83f22000e8c11c7595dc0be1573fb81b9689e1b582ca1c113f4196b4f516bb6"


def test_new_field_without_a_value_keeps_the_hash() -> None:
    tomorrow = NextPolicy(**vars(POLICY)), NextLimits(**vars(LIMITS))
    assert plan_hash(*tomorrow) == plan_hash(POLICY, LIMITS)


def test_new_field_with_a_value_changes_the_hash() -> None:
    assert plan_hash(NextPolicy(**vars(POLICY), a_new_field="x"), LIMITS) != plan_hash(POLICY, LIMITS)


@pytest.mark.parametrize("changes", [{"max_num_seqs": 5}, {"prefix_caching": True}, {"block_size": 64}], ids=str)
def test_every_other_limit_changes_the_hash(changes: dict[str, Any]) -> None:
    assert plan_hash(POLICY, LIMITS.model_copy(update=changes)) != plan_hash(POLICY, LIMITS)
