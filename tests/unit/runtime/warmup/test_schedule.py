"""The orders of warm-up: buckets by each capture order, sampler batch sizes, and swaps of the defragmenter."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.warmup.schedule import (
    SAMPLER_RUNS,
    SWAP_SIZES,
    ScheduledSamplerRun,
    schedule_capture_order,
    schedule_compile_order,
    schedule_sampler_batch_sizes,
    schedule_swap_sizes,
)

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
REFERENCE_PLAN = BucketPlan(
    prompt=tuple(Bucket(bs, query, 0) for bs in (1, 2, 4) for query in range(128, 1025, 128)),
    decode=tuple(Bucket(bs, 1, length) for bs in (1, 2, 4) for length in range(128, 2049, 128)),
)


def test_seed_000_prompt_buckets_are_compiled_largest_first() -> None:
    order = schedule_compile_order(REFERENCE_PLAN, PROMPT)
    assert [bucket[:2] for bucket in order[:3]] == [(4, 1024), (4, 896), (4, 768)]
    assert order[-1] == (1, 128, 0)


def test_seed_000_decode_buckets_are_compiled_largest_first() -> None:
    order = schedule_compile_order(REFERENCE_PLAN, DECODE)
    assert order[:3] == ((4, 1, 2048), (4, 1, 1920), (4, 1, 1792))
    assert order[-2:] == ((2, 1, 128), (1, 1, 128))


def test_min_tokens_breaks_ties_by_the_shorter_query() -> None:
    plan = BucketPlan(prompt=(Bucket(1, 1024, 0), Bucket(2, 512, 0), Bucket(4, 256, 0), Bucket(4, 512, 0)), decode=())
    assert schedule_capture_order(plan, PROMPT, CaptureOrder.MIN_TOKENS) == (
        (4, 256, 0),
        (2, 512, 0),
        (1, 1024, 0),
        (4, 512, 0),
    )


def test_max_bs_orders_by_largest_batch_then_shortest() -> None:
    plan = BucketPlan(prompt=(), decode=tuple(Bucket(bs, 1, n) for bs in (1, 32, 64) for n in (128, 256)))
    assert schedule_capture_order(plan, DECODE, CaptureOrder.MAX_BS) == (
        (64, 1, 128),
        (64, 1, 256),
        (32, 1, 128),
        (32, 1, 256),
        (1, 1, 128),
        (1, 1, 256),
    )


def test_largest_first_reverses_the_plan_as_in_seed_003() -> None:
    plan = BucketPlan(prompt=tuple(Bucket(bs, n, 0) for bs in (1, 4) for n in (128, 1024, 1408)), decode=())
    assert [bucket[:2] for bucket in schedule_capture_order(plan, PROMPT, CaptureOrder.LARGEST_FIRST)] == [
        (4, 1408),
        (4, 1024),
        (4, 128),
        (1, 1408),
        (1, 1024),
        (1, 128),
    ]


def test_every_order_contains_every_bucket() -> None:
    for phase in BucketPhase:
        for order in CaptureOrder:
            assert sorted(schedule_capture_order(REFERENCE_PLAN, phase, order)) == list(
                REFERENCE_PLAN.buckets_of(phase)
            )


def test_seed_004_every_batch_size_is_run_twelve_times() -> None:
    assert len(SAMPLER_RUNS) == len(set(SAMPLER_RUNS)) == 12


def test_seed_004_first_run_is_greedy_with_a_changed_batch() -> None:
    assert SAMPLER_RUNS[0] == ScheduledSamplerRun(temperature=0.0, top_p=1.0, top_k=0, batch_changed=True)


def test_seed_004_last_run_filters_by_top_p() -> None:
    assert SAMPLER_RUNS[-1] == ScheduledSamplerRun(temperature=0.8, top_p=0.85, top_k=0, batch_changed=False)


def test_seed_004_batch_sizes_are_zero_one_and_decode_sizes() -> None:
    assert schedule_sampler_batch_sizes((Bucket(138, 1, 128), Bucket(138, 1, 256))) == (0, 1, 138)


def test_sampler_batch_size_one_is_not_repeated() -> None:
    assert schedule_sampler_batch_sizes((Bucket(1, 1, 128), Bucket(2, 1, 128))) == (0, 1, 2)


def test_seed_004_swaps_run_at_every_size() -> None:
    assert set(schedule_swap_sizes()) == set(SWAP_SIZES) == {8, 16, 32, 64, 128, 256, 512}


def test_seed_004_has_eight_swap_sizes_up_to_eight() -> None:
    assert len(schedule_swap_sizes()) == 8
    assert schedule_swap_sizes()[-1] == 8
