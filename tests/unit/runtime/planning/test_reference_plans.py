"""Bucket lists printed by real servers (logs 000, 002 and 004), reproduced from the settings in the same logs."""

import json

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from tests.support.reference_logs import TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS
from tests.unit.runtime.planning.vectors import DATA

LOGS = json.loads((DATA / "reference_plans.json").read_text())


def test_three_seeds_linear_plan_24_prompt_and_48_decode_buckets() -> None:
    plan = make_plan(TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS, kv_blocks=1519 * 128)
    assert [[bs, query] for bs, query, _ in plan.prompt] == LOGS["linear_prompt"]
    assert [[bs, length] for bs, _, length in plan.decode] == LOGS["linear_decode"]


def test_seed_000_sequences_of_412_tokens_are_padded_as_logged() -> None:
    plan = make_plan(TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS, kv_blocks=1519 * 128)
    assert plan.find(BucketPhase.PROMPT, 3, 412, 0) == Bucket(4, 512, 0)
    assert plan.find(BucketPhase.DECODE, 3, 1, 412) == Bucket(4, 1, 512)
    assert plan.find(BucketPhase.DECODE, 2, 1, 412) == Bucket(2, 1, 512)
    assert plan.find(BucketPhase.DECODE, 3, 1, 513) == Bucket(4, 1, 640)
