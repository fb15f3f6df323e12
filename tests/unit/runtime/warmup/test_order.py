from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.warmup.order import capture_order, compile_order

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
SEED_PLAN = BucketPlan(
    prompt=tuple(Bucket(bs, query, 0) for bs in (1, 2, 4) for query in range(128, 1025, 128)),
    decode=tuple(Bucket(bs, 1, length) for bs in (1, 2, 4) for length in range(128, 2049, 128)),
)


def test_seed_000_prompt_buckets_are_compiled_largest_first() -> None:
    order = compile_order(SEED_PLAN, PROMPT)
    assert [bucket[:2] for bucket in order[:3]] == [(4, 1024), (4, 896), (4, 768)]
    assert order[-1] == (1, 128, 0)


def test_seed_000_decode_buckets_are_compiled_largest_first() -> None:
    order = compile_order(SEED_PLAN, DECODE)
    assert order[:3] == ((4, 1, 2048), (4, 1, 1920), (4, 1, 1792))
    assert order[-2:] == ((2, 1, 128), (1, 1, 128))


def test_min_tokens_breaks_ties_by_the_shorter_query() -> None:
    plan = BucketPlan(prompt=(Bucket(1, 1024, 0), Bucket(2, 512, 0), Bucket(4, 256, 0), Bucket(4, 512, 0)), decode=())
    assert capture_order(plan, PROMPT, CaptureOrder.MIN_TOKENS) == (
        (4, 256, 0),
        (2, 512, 0),
        (1, 1024, 0),
        (4, 512, 0),
    )


def test_max_bs_takes_the_largest_batches_first_and_short_ones_within() -> None:
    plan = BucketPlan(prompt=(), decode=tuple(Bucket(bs, 1, n) for bs in (1, 32, 64) for n in (128, 256)))
    assert capture_order(plan, DECODE, CaptureOrder.MAX_BS) == (
        (64, 1, 128),
        (64, 1, 256),
        (32, 1, 128),
        (32, 1, 256),
        (1, 1, 128),
        (1, 1, 256),
    )


def test_largest_first_walks_the_plan_backwards_as_seed_003_logs_it() -> None:
    plan = BucketPlan(prompt=tuple(Bucket(bs, n, 0) for bs in (1, 4) for n in (128, 1024, 1408)), decode=())
    assert [bucket[:2] for bucket in capture_order(plan, PROMPT, CaptureOrder.LARGEST_FIRST)] == [
        (4, 1408),
        (4, 1024),
        (4, 128),
        (1, 1408),
        (1, 1024),
        (1, 128),
    ]


def test_every_order_holds_every_bucket() -> None:
    for phase in BucketPhase:
        for order in CaptureOrder:
            assert sorted(capture_order(SEED_PLAN, phase, order)) == list(SEED_PLAN.of(phase))
