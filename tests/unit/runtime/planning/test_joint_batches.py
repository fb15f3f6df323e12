"""Buckets of engine cores that run a mixture of experts together."""

from random import Random

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.joint_batches import add_joint_buckets
from gaudi_runtime.planning.planner import make_plan

BLOCKS = 3000


def limits_of(length: int, prompts: int, *, contiguous: bool) -> Limits:
    return Limits(
        max_model_len=length,
        max_num_seqs=64,
        max_num_prefill_seqs=prompts,
        max_num_batched_tokens=2 * length,
        contiguous_paged_attention=contiguous,
        gapless=True,
        joint_batches=True,
    )


def random_batch(random: Random, limits: Limits, phase: BucketPhase) -> tuple[int, int, int]:
    """Return a batch within the limits."""
    if phase is BucketPhase.PROMPT:
        count = random.randint(1, limits.max_num_prefill_seqs)
        return count, int(limits.max_model_len ** random.random()), 0
    count = random.randint(1, limits.max_num_seqs)
    per_sequence = random.randint(1, limits.max_model_len // limits.block_size)
    return count, 1, min(BLOCKS, count * per_sequence)


@pytest.mark.parametrize("strategy", [Strategy.OPTIMAL, Strategy.EXPONENTIAL, Strategy.LINEAR])
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize(("length", "prompts"), [(4096, 1), (8192, 4)])
def test_every_joint_batch_of_two_cores_has_its_bucket(
    strategy: Strategy, contiguous: bool, length: int, prompts: int
) -> None:
    limits = limits_of(length, prompts, contiguous=contiguous)
    plan = make_plan(BucketPolicy(strategy=strategy), limits, BLOCKS)
    random = Random(55)  # noqa: S311 - the same batches in every run
    for phase in BucketPhase:
        planned = {tuple(bucket) for bucket in plan.buckets_of(phase)}
        for _ in range(300):
            padded = [plan.find(phase, *random_batch(random, limits, phase)) for _ in range(2)]
            if None not in padded:
                assert tuple(map(max, *padded)) in planned


def test_joint_bucket_beyond_the_maximum_is_refused() -> None:
    decode = (Bucket(1, 1, 8), Bucket(2, 1, 4))
    with pytest.raises(PlanImpossible, match="more than 2 buckets of a phase"):
        add_joint_buckets(BucketPlan((Bucket(1, 128, 0),), decode), limits_of(4096, 1, contiguous=False), 2)


def test_too_many_joint_buckets_are_refused() -> None:
    plan = make_plan(BucketPolicy(), limits_of(4096, 1, contiguous=False), BLOCKS)
    with pytest.raises(PlanImpossible, match="more than 3 buckets of a phase"):
        add_joint_buckets(BucketPlan(plan.prompt, plan.decode), limits_of(4096, 1, contiguous=False), 3)
