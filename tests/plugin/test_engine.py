"""A start and some minutes of serving on the plugin's own code, in every strategy, mode and layout of the KV cache.

Six of the sixty-four combinations run in `make test`, all of them in `make plugin`.
"""

import os
from functools import partial
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from tests.plugin.cases import GRAPHS, MATRIX, QUICK, Case, configured
from tests.plugin.engine import Facts, forked, in_own_process
from tests.plugin.serving import PROMPTS, planned, skipped, start_and_serve, worst_gap

CASES = MATRIX if os.environ.get("PLUGIN_MATRIX") else QUICK


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = configured(case, checkpoints[case.family])
    return in_own_process(start_and_serve, config, tmp_path_factory.mktemp(case.name))


def test_the_plan_that_we_print_is_what_the_plugin_holds(facts: Facts) -> None:
    (rank,) = facts["before"]
    assert {phase: sorted(buckets) for phase, buckets in rank["held"].items()} == {
        phase: sorted(buckets) for phase, buckets in facts["plan"].items()
    }


def test_every_bucket_is_warmed_and_nothing_else(facts: Facts) -> None:
    assert set(facts["before"][0]["warmed"]) == set(planned(facts))


def test_every_bucket_is_captured_once(facts: Facts, case: Case) -> None:
    report = facts["report"]
    captured = report["prompt"]["captured"] + report["decode"]["captured"]
    assert captured + len(report["skipped"]) == len(planned(facts))
    if case.mode is GRAPHS:
        assert facts["before"][0]["captures"].get("HpuModelAdapter") == captured


def test_kv_cache_holds_no_more_than_sequences_can_fill(facts: Facts, case: Case) -> None:
    # 4 sequences of 1024 tokens in blocks of 128, and one block that is vLLM's own. The plugin switches prefix caching
    # off with contiguous attention.
    blocks = facts["report"]["memory"]["kv_blocks"]
    assert blocks > 33 if case.prefix_caching and not case.contiguous else blocks == 33


def test_sampler_and_defragmenter_are_done(facts: Facts) -> None:
    assert facts["report"]["sampler_done"]
    assert facts["report"]["defragmenter_done"]


def test_serving_captures_and_compiles_nothing_that_was_planned(facts: Facts, case: Case) -> None:
    cold = set(facts["cold"])
    # Above the plugin's own limit of graph tokens, and told so.
    cold -= set(skipped(facts))
    (before,), (after,) = facts["before"], facts["after"]
    assert (after["captures"], cold) == (before["captures"], set())
    assert after["compiles"] == before["compiles"] or facts["cold"]
    assert after["recipes"]["model"] == before["recipes"]["model"] or facts["cold"]


def test_prompts_are_split_where_no_prefix_is_cached(facts: Facts, case: Case) -> None:
    """So that the test above says something of their pieces."""
    pieces = [each for each in facts["counted"] if each.startswith("prompt") and not each.endswith("x0")]
    assert pieces or case.prefix_caching or case.strategy is Strategy.PADDING_AWARE


def test_we_count_what_the_model_ran(facts: Facts) -> None:
    served = facts["after"][0]["served"]
    assert facts["counted"] == served
    assert facts["hits"] + sum(facts["cold"].values()) == sum(served.values())


def test_greedy_tokens_are_those_of_transformers(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints[case.family], answers), tmp_path) < 0.15
