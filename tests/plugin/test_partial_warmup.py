"""A warm-up that the time budget ends early. The plugin's own code then serves requests without a cold shape."""

import os
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import WarmupConfig
from tests.plugin.cases import COMPILE, Case, case_config
from tests.plugin.engine import Facts, run_in_fork
from tests.plugin.serving import planned_shapes, start_and_serve

pytestmark = pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="one more start: in make plugin only")

CASE = Case(Strategy.LINEAR, False, True, "llama", COMPILE)
"""Contiguous attention looks up a decode batch twice, with different block counts."""


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: Any) -> Facts:
    warmup = WarmupConfig(time_budget_seconds=1)
    config = case_config(CASE, checkpoints[CASE.family]).model_copy(update={"warmup": warmup})
    return run_in_fork(start_and_serve, config, tmp_path_factory.mktemp(CASE.name))


def test_plugin_has_no_buckets_that_the_time_budget_skips(facts: Facts) -> None:
    (rank,) = facts["before"]
    warmed = facts["report"]["prompt"]["warmed"] + facts["report"]["decode"]["warmed"]
    held = [each for buckets in rank["held"].values() for each in buckets]
    assert 0 < len(held) <= warmed < len(planned_shapes(facts))


def test_requests_run_no_cold_shape(facts: Facts) -> None:
    assert facts["hits"] > 0
    assert facts["cold"] == {}
    assert facts["recompiles"] == 0
    # This check does not depend on our counters. It compares the forward passes that the test recorded in the model
    # runner.
    (rank,) = facts["after"]
    assert set(rank["served"]) <= set(rank["warmed"])
