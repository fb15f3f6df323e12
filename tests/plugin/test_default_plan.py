"""Bursts of mixed lengths to a resource with the defaults for cards. Every forward has a bucket."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.bursts import LENGTH, REQUESTS, rendered_config, serve_bursts
from tests.plugin.engine import Facts, run_in_fork

ENGINES: dict[str, dict[str, Any]] = {"defaults": {}}
if os.environ.get("PLUGIN_MATRIX"):
    ENGINES["prompts split at a quarter"] = {"maxNumBatchedTokens": LENGTH // 4}
    ENGINES["prefix caching"] = {"prefixCaching": True, "settings": {"VLLM_CONTIGUOUS_PA": "false"}}
    ENGINES["several prompts a batch"] = {"maxNumPrefillSeqs": 4}
    ENGINES["HPU graphs"] = {"executionMode": "HpuGraphs"}


@pytest.fixture(scope="module", params=ENGINES, ids=str)
def facts(
    request: pytest.FixtureRequest, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Facts:
    config = rendered_config(checkpoints["llama"], ENGINES[request.param])
    return run_in_fork(serve_bursts, config, tmp_path_factory.mktemp("defaults")) | {"case": request.param}


def test_every_forward_runs_in_a_warm_bucket(facts: Facts) -> None:
    assert facts["answered"] == REQUESTS
    assert (facts["unwarmed"], facts["cold"]) == ([], 0)
    assert (facts["compiled"], facts["recipes"]) == (0, 0), "by Dynamo, and by the bridge of the played card"
    assert facts["forwards"] == facts["counted"] > REQUESTS


def test_only_split_or_cached_prompts_have_context(facts: Facts) -> None:
    splits_or_caches = facts["case"] in ("prefix caching", "prompts split at a quarter")
    assert bool(facts["contexts"]) == splits_or_caches
