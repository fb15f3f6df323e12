"""A start and some requests on the plugin's own code, in every strategy, execution mode and layout of the KV cache.

`make test` runs five of the sixty-four combinations, and `make plugin` runs all combinations.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from tests.plugin.cases import GRAPHS, MATRIX, QUICK, Case, case_config
from tests.plugin.engine import Facts, call_in_fork, run_in_fork
from tests.plugin.serving import PROMPTS, largest_logit_gap, planned_shapes, skipped_shapes, start_and_serve

CASES = MATRIX if os.environ.get("PLUGIN_MATRIX") else QUICK


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = case_config(case, checkpoints[case.family])
    return run_in_fork(start_and_serve, config, tmp_path_factory.mktemp(case.name))


def test_plugin_has_the_printed_buckets(facts: Facts) -> None:
    (rank,) = facts["before"]
    assert {phase: sorted(buckets) for phase, buckets in rank["held"].items()} == {
        phase: sorted(buckets) for phase, buckets in facts["plan"].items()
    }


def test_warm_up_runs_exactly_the_planned_buckets(facts: Facts) -> None:
    assert set(facts["before"][0]["warmed"]) == set(planned_shapes(facts))


def test_every_bucket_is_captured_once(facts: Facts, case: Case) -> None:
    report = facts["report"]
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    assert captured + len(report["skipped"]) == len(planned_shapes(facts))
    if case.mode is GRAPHS:
        assert facts["before"][0]["captures"].get("HpuModelAdapter") == captured


def test_kv_cache_is_limited_to_blocks_that_sequences_can_fill(facts: Facts, case: Case) -> None:
    # A sequence has at most 1024 tokens, so 4 sequences fill 32 blocks of 128 tokens. vLLM reserves one more block.
    # With contiguous attention, the plugin disables prefix caching.
    blocks = facts["report"]["memory"]["kv_blocks"]
    assert blocks > 33 if case.prefix_caching and not case.contiguous else blocks == 33


def test_sampler_and_defragmenter_are_warmed_up(facts: Facts) -> None:
    assert facts["report"]["sampler_done"]
    assert facts["report"]["defragmenter_done"]


def test_serving_captures_and_compiles_no_planned_bucket(facts: Facts, case: Case) -> None:
    cold = set(facts["cold"])
    # Ignore the skipped shapes. These pieces of split prompts exceed the token limit for graphs that this test sets in
    # the plugin.
    cold -= set(skipped_shapes(facts))
    (before,), (after,) = facts["before"], facts["after"]
    assert (after["captures"], cold) == (before["captures"], set())
    assert after["compiles"] == before["compiles"] or facts["cold"]
    assert facts["recompiles"] == 0 or facts["cold"]


def test_prompts_are_split_without_prefix_caching(facts: Facts, case: Case) -> None:
    """Check that pieces of split prompts occur, because the test above must cover them."""
    pieces = [each for each in facts["counted"] if each.startswith("prompt") and not each.endswith("x0")]
    assert pieces or case.prefix_caching or case.strategy is Strategy.PADDING_AWARE


def test_counters_equal_the_recorded_forwards(facts: Facts) -> None:
    served = facts["after"][0]["served"]
    assert facts["counted"] == served
    assert facts["hits"] + sum(facts["cold"].values()) == sum(served.values())


def test_greedy_tokens_equal_those_of_transformers(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints[case.family], answers), tmp_path) < 0.15
