"""The buckets that are captured with limited memory for graphs: shares of the phases, skips, and out of memory."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase, percent
from gaudi_runtime.memory_split import GraphPool, graph_pool
from gaudi_runtime.warmup.schedule import CaptureBudget, ScheduledCapture, TimeBudget

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
MIB, GIB = 2**20, 2**30
LOGS = json.loads((Path(__file__).parents[3] / "data" / "reference_plans.json").read_text())
REFERENCE_PLAN = BucketPlan(
    prompt=tuple(Bucket(bs, query, 0) for bs, query in LOGS["linear_prompt"]),
    decode=tuple(Bucket(bs, 1, length) for bs, length in LOGS["linear_decode"]),
)


def reference_bytes(step: ScheduledCapture) -> int:
    """Return the graph bytes that logs 000 and 002 imply."""
    if step.phase is DECODE:
        return int(3.37 * MIB)
    return int(1.43 * MIB * step.bucket.batch_size * step.bucket.query_len)


def run(budget: CaptureBudget, measure: Callable[[ScheduledCapture], int | None]) -> list[ScheduledCapture]:
    """Capture everything. `measure` returns the bytes of a step, or None for out of memory."""
    steps = []
    while step := budget.next_step():
        steps.append(step)
        graph_bytes = measure(step)
        if graph_bytes is None:
            budget.phase_budget(step.phase).record_out_of_memory("no memory is left")
        else:
            budget.phase_budget(step.phase).record_captured(graph_bytes)
    return steps


def small_plan(prompts: int = 4, decodes: int = 3) -> BucketPlan:
    return BucketPlan(
        prompt=tuple(Bucket(1, 128 * n, 0) for n in range(1, prompts + 1)),
        decode=tuple(Bucket(n, 1, 64) for n in range(1, decodes + 1)),
    )


def small_budget(prompt: int, decode: int, plan: BucketPlan | None = None) -> CaptureBudget:
    return CaptureBudget(plan or small_plan(), GraphPool(prompt + decode, prompt, decode), block_size=128)


def by_weight(step: ScheduledCapture) -> int:
    return bucket_weight(step.phase, step.bucket, block_size=128)


def waiting_buckets(budget: CaptureBudget, phase: BucketPhase) -> tuple[int, int]:
    """Return the number and the weight of a phase's buckets that wait in this pass."""
    return budget.phase_budget(phase).waiting_count, budget.phase_budget(phase).waiting_weight


@pytest.fixture(params=[0.5, 0.3], ids=["ratio-0.5", "ratio-0.3"])
def reference_budget(request: pytest.FixtureRequest) -> CaptureBudget:
    pool = graph_pool(free_bytes=round(15.85 * GIB), margin_bytes=0, prompt_ratio=request.param)
    return CaptureBudget(REFERENCE_PLAN, pool, block_size=128)


def test_ratio_half_captures_11_prompt_48_decode_then_4_prompt() -> None:
    pool = graph_pool(free_bytes=round(15.85 * GIB), margin_bytes=0, prompt_ratio=0.5)
    steps = run(CaptureBudget(REFERENCE_PLAN, pool, block_size=128), reference_bytes)
    assert [step.phase for step in steps] == [PROMPT] * 11 + [DECODE] * 48 + [PROMPT] * 4
    assert max(step.bucket.query_len for step in steps[:11]) == 896
    assert [step.bucket[:2] for step in steps[-4:]] == [(4, 256), (2, 512), (1, 1024), (2, 640)]


def test_seeds_000_and_002_capture_the_logged_15_prompt_buckets(reference_budget: CaptureBudget) -> None:
    run(reference_budget, reference_bytes)
    assert [list(bucket[:2]) for bucket in sorted(reference_budget.phase_budget(PROMPT).captured)] == LOGS[
        "captured_prompt"
    ]


def test_two_seeds_end_with_62_percent_prompt_and_all_decode(reference_budget: CaptureBudget) -> None:
    run(reference_budget, reference_bytes)
    captured = len(reference_budget.phase_budget(PROMPT).captured)
    assert captured / len(REFERENCE_PLAN.prompt) == 0.625
    assert percent(captured, len(REFERENCE_PLAN.prompt)) == 62
    assert percent(len(reference_budget.phase_budget(DECODE).captured), len(REFERENCE_PLAN.decode)) == 100


def test_seeds_000_and_002_prompt_graphs_take_13_94_gib(reference_budget: CaptureBudget) -> None:
    run(reference_budget, reference_bytes)
    assert reference_budget.phase_budget(PROMPT).graph_bytes / GIB == pytest.approx(13.94, abs=0.005)


def test_seeds_000_and_002_steps_are_numbered_like_the_log(reference_budget: CaptureBudget) -> None:
    steps = [step for step in run(reference_budget, reference_bytes) if step.phase is PROMPT]
    assert [step.position for step in steps] == list(range(1, 16))


def test_sufficient_pool_captures_every_bucket() -> None:
    budget = small_budget(10_000, 10_000)
    assert len(run(budget, by_weight)) == 7
    assert budget.skipped_buckets() == ()


def test_bucket_whose_estimate_equals_the_free_bytes_is_skipped() -> None:
    budget = small_budget(128 + 256, 0)
    assert [step.bucket.query_len for step in run(budget, by_weight) if step.phase is PROMPT] == [128]


def test_smaller_bucket_is_captured_after_a_skipped_larger_one() -> None:
    plan = BucketPlan(prompt=(Bucket(1, 128, 0),), decode=tuple(Bucket(n, 1, 64) for n in (1, 2, 8)))
    budget = CaptureBudget(plan, GraphPool(1000, 990, 10), block_size=128, decode_order=CaptureOrder.MIN_TOKENS)
    taken = [step.bucket.batch_size for step in run(budget, by_weight) if step.phase is DECODE]
    assert taken == [1, 2, 8]


def test_empty_pool_skips_every_bucket_with_a_reason() -> None:
    budget = small_budget(0, 0)
    assert run(budget, by_weight) == []
    assert len(budget.skipped_buckets()) == 7
    assert budget.skipped_buckets()[0].reason == "this graph needs about 0 B, but only 0 B are left for prompt graphs"


def test_prompt_uses_unused_bytes_of_both_incomplete_phases() -> None:
    plan = BucketPlan(
        prompt=(Bucket(1, 100, 0), Bucket(1, 300, 0), Bucket(1, 900, 0)),
        decode=tuple(Bucket(n, 1, 64) for n in (100, 300, 900)),
    )
    budget = CaptureBudget(plan, GraphPool(400, 200, 200), block_size=128, decode_order=CaptureOrder.MIN_TOKENS)
    steps = run(budget, lambda step: by_weight(step) // 2)
    assert [(step.phase, by_weight(step)) for step in steps] == [(PROMPT, 100), (DECODE, 100), (PROMPT, 300)]


def test_decode_uses_unused_bytes_of_prompt() -> None:
    budget = small_budget(10_000, 4)
    steps = run(budget, by_weight)
    assert [step.bucket.batch_size for step in steps if step.phase is DECODE] == [3, 2, 1]


def test_out_of_memory_ends_its_phase_and_names_the_bucket() -> None:
    budget = small_budget(10_000, 10_000)
    run(budget, lambda step: None if step.bucket == (1, 256, 0) else by_weight(step))
    assert budget.phase_budget(PROMPT).captured == [Bucket(1, 128, 0)]
    after = "capture of prompt graphs ended when the device ran out of memory at (1, 256, 0)"
    assert [(skipped.bucket, skipped.reason) for skipped in budget.skipped_buckets()] == [
        ((1, 256, 0), "the device ran out of memory while this graph was captured (no memory is left)"),
        ((1, 384, 0), after),
        ((1, 512, 0), after),
    ]


def test_out_of_memory_in_prompt_does_not_end_decode() -> None:
    budget = small_budget(10_000, 10_000)
    run(budget, lambda step: None if step.phase is PROMPT else by_weight(step))
    assert len(budget.phase_budget(DECODE).captured) == 3


def test_out_of_memory_in_the_leftover_pass_ends_capture() -> None:
    budget = small_budget(200, 1800)
    steps = run(budget, lambda step: None if step.bucket == (1, 384, 0) else by_weight(step))
    assert [step.bucket.query_len for step in steps if step.phase is PROMPT] == [128, 256, 384]
    assert budget.next_step() is None


def test_bytes_above_the_estimate_are_subtracted_from_the_share() -> None:
    budget = small_budget(1000, 0)
    steps = run(budget, lambda step: 900)
    assert [step.bucket.query_len for step in steps if step.phase is PROMPT] == [128]


def test_waiting_buckets_decrease_with_each_captured_or_skipped_bucket() -> None:
    budget = small_budget(128 + 256 + 1, 0)
    assert waiting_buckets(budget, PROMPT) == (4, 128 + 256 + 384 + 512)
    budget.next_step()
    budget.phase_budget(PROMPT).record_captured(128)
    assert waiting_buckets(budget, PROMPT) == (3, 256 + 384 + 512)
    budget.next_step()
    budget.phase_budget(PROMPT).record_captured(256)
    run(budget, by_weight)
    assert waiting_buckets(budget, PROMPT) == (0, 0)


def test_skipped_buckets_wait_again_in_the_second_pass() -> None:
    budget = small_budget(128, 10_000)
    while (step := budget.next_step()) and step.phase is PROMPT:
        budget.phase_budget(PROMPT).record_captured(128)
    while (step := budget.next_step()) and step.phase is DECODE:
        budget.phase_budget(DECODE).record_captured(1)
    assert waiting_buckets(budget, PROMPT) == (3, 256 + 384 + 512)


def test_cold_buckets_get_no_graph_and_are_listed_once() -> None:
    cold = {(PROMPT, Bucket(1, 128, 0)), (DECODE, Bucket(3, 1, 64))}
    budget = CaptureBudget(small_plan(), GraphPool(20_000, 10_000, 10_000), block_size=128, cold=cold)
    steps = run(budget, by_weight)
    assert not {(step.phase, step.bucket) for step in steps} & cold
    assert budget.skipped_buckets() == ()


def test_unused_bytes_of_a_complete_phase_go_to_the_other() -> None:
    cold = {(PROMPT, Bucket(1, 512, 0))}
    budget = CaptureBudget(small_plan(), GraphPool(10_004, 10_000, 4), block_size=128, cold=cold)
    assert len([step for step in run(budget, by_weight) if step.phase is DECODE]) == 3


def test_end_skips_the_remaining_buckets_with_its_reason() -> None:
    budget = small_budget(10_000, 10_000)
    budget.next_step()
    budget.phase_budget(PROMPT).record_captured(128)
    budget.end("time is up")
    assert budget.next_step() is None
    assert [skipped.reason for skipped in budget.skipped_buckets()] == ["time is up"] * 6


@given(st.integers(0, 20_000), st.integers(0, 200), st.integers(1, 8), st.integers(1, 8))
def test_captured_bytes_never_exceed_the_pool(prompt: int, decode: int, prompts: int, decodes: int) -> None:
    """Only the first graph of a phase may exceed the pool, because no graph has been measured before it."""
    budget = small_budget(prompt + 128, decode + 8, small_plan(prompts, decodes))
    run(budget, by_weight)
    assert (
        budget.phase_budget(PROMPT).graph_bytes + budget.phase_budget(DECODE).graph_bytes <= prompt + 128 + decode + 8
    )


@given(st.integers(0, 3000), st.integers(0, 30), st.integers(1, 8), st.integers(1, 8))
def test_no_skipped_graph_fits_the_unused_bytes(prompt: int, decode: int, prompts: int, decodes: int) -> None:
    budget = small_budget(prompt, decode, small_plan(prompts, decodes))
    run(budget, by_weight)
    unused = prompt + decode - budget.phase_budget(PROMPT).graph_bytes - budget.phase_budget(DECODE).graph_bytes
    left_out = [bucket_weight(each.phase, Bucket(*each.bucket), block_size=128) for each in budget.skipped_buckets()]
    assert all(each >= unused for each in left_out)


@given(st.integers(0, 3000), st.integers(0, 30), st.integers(1, 8), st.integers(1, 8), st.randoms())
def test_every_bucket_is_either_captured_or_skipped(
    prompt: int, decode: int, prompts: int, decodes: int, random: Random
) -> None:
    plan = small_plan(prompts, decodes)
    budget = small_budget(prompt, decode, plan)
    run(budget, lambda step: None if random.random() < 0.1 else random.randint(1, 500))
    captured = set(budget.phase_budget(PROMPT).captured) | set(budget.phase_budget(DECODE).captured)
    skipped = {Bucket(*skipped.bucket) for skipped in budget.skipped_buckets()}
    assert captured | skipped == set(plan.prompt) | set(plan.decode)
    assert not captured & skipped


def test_unset_time_budget_is_never_exhausted() -> None:
    assert not TimeBudget(None, iter([0.0, 1e9]).__next__).is_spent()


def test_time_budget_is_exhausted_after_its_seconds() -> None:
    budget = TimeBudget(60, iter([100.0, 159.0, 160.0]).__next__)
    assert [budget.is_spent(), budget.is_spent()] == [False, True]


def test_reason_names_the_seconds_of_the_time_budget() -> None:
    assert TimeBudget(60, lambda: 0.0).reason == "the time budget of 60 s was spent before this bucket was started"
