"""The engine with two ranks and a fake plugin: a complete start, its report, and the counts during serving."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.catalog.release_pairs import PAIRS, ReleasePair
from gaudi_runtime.contract.config import WarmupConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm import engine as adapter
from gaudi_runtime.errors import PlanImpossible, RankFailed
from tests.unit.runtime.engines.vllm.cluster import Cluster, start_engine_on, two_cards, two_cores
from tests.unit.runtime.engines.vllm.installed import pretend_installed
from tests.unit.runtime.engines.vllm.workers.card import GIB, MIB, Card
from tests.unit.runtime.knobs.configs import vllm_config


@pytest.fixture(params=PAIRS, ids=lambda pair: pair.vllm, autouse=True)
def pair(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReleasePair:
    """A fixture that pretends that a pair of releases is installed, for each pair."""
    pair: ReleasePair = request.param
    pretend_installed(monkeypatch, tmp_path, vllm=pair.vllm, vllm_gaudi=pair.plugin)
    return pair


async def test_graph_bytes_are_the_maximum_over_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card(per_prompt_token=2 * MIB)])
    _, report = await start_engine_on(cluster, monkeypatch)
    assert report.prompt.captured == report.prompt.planned == 4
    assert report.prompt.graph_bytes == 2 * MIB * (128 + 256 + 384 + 512)


async def test_report_has_the_description_of_the_installed_pair(
    monkeypatch: pytest.MonkeyPatch, pair: ReleasePair
) -> None:
    _, report = await start_engine_on(Cluster([Card(), Card()]), monkeypatch)
    assert str(report.releases).startswith(f"The card is driven by {pair.description}: ")


@pytest.mark.parametrize(("takes_images", "most"), [(True, 4 * 4096 * 4096), (False, 0)])
async def test_images_are_checked_only_for_models_that_take_images(
    monkeypatch: pytest.MonkeyPatch, takes_images: bool, most: int
) -> None:
    cluster = Cluster([Card()])
    engine, _ = await start_engine_on(cluster, monkeypatch)
    cluster.vllm.model_config.is_multimodal_model = takes_images
    assert engine.max_pixels() == most


async def test_bucket_is_captured_if_every_rank_has_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card(longest_graphed=400)])
    _, report = await start_engine_on(cluster, monkeypatch)
    assert report.prompt.captured == report.prompt.planned - 1
    assert [(each.bucket, each.reason) for each in report.skipped] == [
        (Bucket(1, 512, 0), "vLLM ran this bucket without a graph, or compiled the bucket again")
    ]
    assert report.prompt.failed == 1


async def test_graph_above_max_graph_tokens_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config = two_cards().model_copy(update={"warmup": WarmupConfig(max_graph_tokens=400)})
    _, report = await start_engine_on(Cluster([Card(longest_graphed=400)] * 2), monkeypatch, config)
    assert (report.prompt.left_out_by_limit, report.prompt.failed) == (1, 0)
    assert report.skipped[0].reason == (
        "prompts of 512 tokens run without a graph, because --max-cudagraph-capture-size is 400"
    )


async def test_only_the_bucket_that_runs_with_another_shape_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card()])
    for runner in cluster.runners:
        other = runner._prepare_dummy_scenario
        runner._prepare_dummy_scenario = partial(_run_as_another_shape, other, (1, 384, 0), (1, 512, 0))
    file = "(1, [128, 256, 384, 512], 0)\n([2, 4], 1, [8, 16])"
    _, report = await start_engine_on(cluster, monkeypatch, two_cards(bucketing={"strategy": "file", "file": file}))
    assert (report.prompt.planned, report.prompt.warmed, report.prompt.captured) == (4, 3, 3)
    (left,) = report.skipped
    assert (left.bucket, left.reason.partition(".")[0]) == (
        Bucket(1, 384, 0),
        "vllm-gaudi runs this bucket as (1, 512, 0)",
    )


def _run_as_another_shape(run: Any, odd: Any, other: Any, prompt_cfg: Any, decode_cfg: Any) -> None:
    run(other if prompt_cfg == odd else prompt_cfg, decode_cfg)


async def test_out_of_memory_on_one_rank_ends_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card(fails_at=(1, 256, 0))])
    _, report = await start_engine_on(cluster, monkeypatch)
    assert report.prompt.captured < report.prompt.planned


async def test_rank_without_memory_stops_capture_on_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """If only one rank stopped capturing, the other rank would wait for this rank in a collective.

    The second card has only the margin of 1 GiB left.
    """
    cluster = Cluster([Card(), Card(free=GIB)])
    _, report = await start_engine_on(cluster, monkeypatch)
    assert report.prompt.captured == report.decode.captured == 0
    assert "capture" not in [verb for verb, _ in cluster.vllm.calls]


async def test_reported_memory_is_that_of_the_rank_with_least_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake plugin keeps a margin of 1 GiB and has a KV cache of 6 GiB."""
    _, report = await start_engine_on(Cluster([Card(), Card(free=12 * GIB)]), monkeypatch)
    assert report.memory is not None
    assert (report.memory.graphs, report.memory.kv_cache, report.memory.kv_blocks) == (11 * GIB, 6 * GIB, 1519)


async def test_plan_uses_the_block_size_of_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models such as Granite 4.0-H have blocks of 528 tokens, because the plugin chooses the block size."""
    cluster = Cluster([Card(), Card()])
    for runner in cluster.runners:
        runner.block_size = runner.attn_block_size = 528
    config = vllm_config(limits={"maxModelLen": 2048, "maxNumSeqs": 2, "maxNumBatchedTokens": 1056})
    engine, report = await start_engine_on(cluster, monkeypatch, config)
    assert report.memory is not None
    assert report.memory.block_size == 528
    assert {query for _, query, _ in cluster.runners[0].bucketing_manager.prompt_buckets} == {528, 1056}
    assert engine.notes() == (
        "For this model, vLLM uses KV blocks of 528 tokens, but engine.blockSize is 128. The buckets are planned for "
        "blocks of 528 tokens",
    )


async def test_bucket_that_results_in_nan_ends_the_start(monkeypatch: pytest.MonkeyPatch, pair: ReleasePair) -> None:
    """The operator accepts the setting, because the operator does not know which release the image has."""
    cluster = Cluster([Card(), Card()])
    config = vllm_config(
        engine={"settings": {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "true"}},
        limits={"maxModelLen": 131072, "maxNumSeqs": 1, "maxNumBatchedTokens": 8192, "prefixCaching": True},
        bucketing={"strategy": "file", "file": "(1, 8192, 960)\n(1, 1, 1024)"},
    )
    if pair.tiles_queries:
        _, report = await start_engine_on(cluster, monkeypatch, config)
        assert report.prompt.planned == 1
    else:
        with pytest.raises(PlanImpossible, match=r"use an image with vllm-gaudi 0\.30\.0"):
            await start_engine_on(cluster, monkeypatch, config)


async def test_window_bucket_that_results_in_nan_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers with a window, as in Gemma 3, have a bias of query x query elements, even without a context."""
    cluster = Cluster([Card(), Card()])
    for runner in cluster.runners:
        runner.interleaved_sliding_window = 1024
    config = vllm_config(
        limits={"maxModelLen": 32768, "maxNumSeqs": 1, "maxNumBatchedTokens": 32768},
        bucketing={"strategy": "file", "file": "(1, 32768, 0)\n(1, 1, 256)"},
    )
    with pytest.raises(PlanImpossible, match=r"or set PT_HPU_SDPA_QKV_SLICE_MODE_FWD"):
        await start_engine_on(cluster, monkeypatch, config)


async def test_verbs_are_called_in_order_and_buckets_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card()])
    _, report = await start_engine_on(cluster, monkeypatch)
    verbs = [verb for verb, _ in cluster.vllm.calls if verb != "memory"]
    buckets = report.prompt.planned + report.decode.planned
    order = ["describe", "profile", "plan", "warm", "sampler", "defragmenter", "execute", "capture"]
    assert list(dict.fromkeys(verbs)) == order
    assert (verbs.count("warm"), verbs.count("capture"), verbs.count("sampler")) == (buckets, buckets, 1)
    assert cluster.cards[0].log == cluster.cards[1].log


async def test_unsupported_rank_fails_the_start_with_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card()])
    cluster.workers[1].gaudi_verbs = None
    with pytest.raises(RankFailed, match="Rank 1 failed during the call describe"):
        await start_engine_on(cluster, monkeypatch)
    assert cluster.vllm.ended


async def test_serving_counts_hits_misses_and_recompiles(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def application(parsed: object, engine: object) -> AsyncIterator[object]:
        yield None

    monkeypatch.setattr(adapter, "openai_application", application)
    cluster = Cluster([Card(), Card()])
    engine, _ = await start_engine_on(cluster, monkeypatch)
    async with engine.application():
        cluster.serve(("prompt", (1, 200, 0)))
        cluster.serve(("decode", (2, 1, 5)))
        cluster.serve(("decode", (8, 1, 32)))
        assert "died" in str(await asyncio.wait_for(engine.wait_until_lost(), 60))
    assert (engine.counters.hits, sum(engine.counters.cold_batches.values()), engine.counters.recompiles) == (2, 1, 1)
    assert engine.counters.tallies[BucketPhase.PROMPT, Bucket(1, 256, 0)].tokens == 200


async def test_bucket_is_captured_if_every_core_has_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card(longest_graphed=400)], cores=2)
    _, report = await start_engine_on(cluster, monkeypatch, two_cores())
    assert report.prompt.captured == report.prompt.planned - 1


async def test_core_that_runs_out_of_memory_ends_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card(fails_at=(1, 256, 0))], cores=2)
    _, report = await start_engine_on(cluster, monkeypatch, two_cores())
    assert report.prompt.captured < report.prompt.planned


async def test_reported_memory_is_that_of_the_core_with_least_free(monkeypatch: pytest.MonkeyPatch) -> None:
    _, report = await start_engine_on(Cluster([Card(), Card(free=12 * GIB)], cores=2), monkeypatch, two_cores())
    assert report.memory is not None
    assert report.memory.graphs == 11 * GIB


async def test_buckets_are_planned_for_the_fewest_blocks_of_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([Card(), Card()], cores=2)
    cluster.runners[1].bucketing_manager.num_hpu_blocks = 1000
    engine, report = await start_engine_on(cluster, monkeypatch, two_cores())
    assert report.memory is not None
    assert report.memory.kv_blocks == 1000
    assert engine.notes() == (
        "the KV caches of the engine cores have 1000 to 1519 blocks. The buckets are planned for 1000 blocks, so "
        "decode batches may be cold on cores with more blocks",
    )


async def test_hits_and_cold_shapes_of_all_cores_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def application(parsed: object, engine: object) -> AsyncIterator[object]:
        yield None

    monkeypatch.setattr(adapter, "openai_application", application)
    cluster = Cluster([Card(), Card()], cores=2)
    engine, _ = await start_engine_on(cluster, monkeypatch, two_cores())
    async with engine.application():
        cluster.serve(("prompt", (1, 200, 0)))
        cluster.serve(("decode", (8, 1, 32)), core=1)
        assert "died" in str(await asyncio.wait_for(engine.wait_until_lost(), 60))
    assert (engine.counters.hits, sum(engine.counters.cold_batches.values()), engine.counters.recompiles) == (1, 1, 1)
