"""The vision tower with a fake of the plugin: its planned buckets are read, run one by one, and counted."""

from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.engines.vllm.workers.capabilities import VISION, VISION_BUCKETS, PluginName
from gaudi_runtime.engines.vllm.workers.hpu import NO_VISION, HpuVerbs
from gaudi_runtime.engines.vllm.workers.vision import describe_inputs
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.engines.vllm.workers.card import MIB, Card
from tests.unit.runtime.engines.vllm.workers.driven import drive, plain
from tests.unit.runtime.engines.vllm.workers.stand_in import CONTRACT, Pixels, bridge, plugin, serve

COLD = "the vision tower is not warmed up: the first image of every size is slow"
SIZES = (1, 2, 4)
BUCKETS = [["image", 896, 896, size] for size in SIZES]
USED = [("HPUModelRunner", each) for each in VISION] + [("HPUVisionBucketManager", each) for each in VISION_BUCKETS]


def verbs_with_images(card: Card, sizes: Any = SIZES, **options: Any) -> tuple[HpuVerbs, Any]:
    runner = plugin(card, images=sizes)
    verbs = HpuVerbs(runner, bridge(card), **options)
    return verbs, runner


def planned(verbs: HpuVerbs) -> dict[str, Any]:
    return dict(plain(verbs.plan([[1, 128, 0]], [[1, 1, 64]])))


def serve_images(runner: Any, images: int) -> None:
    runner.model.embed_multimodal(pixel_values=Pixels((images, 3, 896, 896)))


def label(case: tuple[str, PluginName]) -> str:
    return case[1].name


@pytest.mark.parametrize("case", USED, ids=label)
def test_contract_has_every_name_with_its_parameters(case: tuple[str, PluginName]) -> None:
    facts, name = CONTRACT[case[0]], case[1]
    if name.parameters is None:
        assert name.name in facts["attributes"]
    else:
        assert [each.partition("=")[0] for each in facts["methods"][name.name]] == list(name.parameters)


@pytest.mark.parametrize("case", USED, ids=label)
def test_missing_name_keeps_the_vision_tower_cold(case: tuple[str, PluginName]) -> None:
    card = Card()
    verbs = HpuVerbs(plugin(card, images=SIZES, without=(case[0], case[1].name)), bridge(card))
    described, answer = plain(verbs.describe()), planned(verbs)
    assert [*described["degradations"], *answer["degradations"]] == [COLD]
    assert answer.get("vision", []) == []


def test_plan_of_the_tower_is_read_from_the_plugin() -> None:
    card = Card()
    assert planned(verbs_with_images(card)[0]) == {"prompt": 1, "decode": 1, "vision": BUCKETS, "degradations": []}
    assert card.log == ["warmup_model() skip_warmup=True"]


@pytest.mark.parametrize("sizes", [(), None])
def test_tower_without_buckets_is_a_degradation(sizes: object) -> None:
    """The plugin has None instead of buckets if its buckets are disabled."""
    card = Card()
    verbs, runner = verbs_with_images(card)
    runner.model.vision_bucket_manager.multimodal_buckets = sizes
    assert planned(verbs)["degradations"] == [NO_VISION]


def test_model_without_a_tower_has_no_vision() -> None:
    card = Card()
    verbs = HpuVerbs(plugin(card), bridge(card))
    assert "vision" not in planned(verbs)
    verbs.start_serving()
    assert verbs.counters() == {"met": []}


@pytest.mark.parametrize(
    ("lazy", "for_real", "logged"),
    [(True, False, "tower 2"), (False, False, "tower 2 compile-only"), (False, True, "tower 2")],
)
def test_tower_is_warmed_compile_only_under_torch_compile(lazy: bool, for_real: bool, logged: str) -> None:
    card = Card(lazy=lazy)
    verbs, _ = verbs_with_images(card, run_vision=for_real)
    planned(verbs)
    outcome = plain(verbs.warm_vision(*BUCKETS[1]))
    assert card.log[1:] == [logged]
    assert outcome == {"bytes": 2 * MIB, "graph": False, "out_of_memory": None}


async def test_every_vision_bucket_is_warmed_once_before_token_buckets() -> None:
    card = Card()
    report = drive(sim_config(), verbs_with_images(card)[0], card)
    assert card.log[1:4] == ["tower 1", "tower 2", "tower 4"]
    assert sum(each.startswith("tower") for each in card.log) == 3
    assert report.vision is not None
    assert (report.vision.planned, report.vision.warmed, report.vision.device_bytes) == (3, 3, 7 * MIB)


async def test_full_card_skips_larger_vision_buckets() -> None:
    card = Card(fails_at=(2, 896, 896), failure="PT_DEVMEM Allocation failed for size::1 MB")
    report = drive(sim_config(), verbs_with_images(card)[0], card)
    assert report.vision is not None
    assert report.vision.warmed == 1
    assert [str(each.bucket) for each in report.vision.skipped] == ["image 896x896x2", "image 896x896x4"]
    assert "ran out of memory" in report.vision.skipped[0].reason
    assert report.prompt.captured == report.prompt.planned > 0


async def test_image_size_that_the_plugin_cannot_run_is_skipped() -> None:
    card = Card(fails_at=(2, 896, 896), failure="no such dummy")
    report = drive(sim_config(), verbs_with_images(card)[0], card)
    assert report.vision is not None
    assert report.vision.warmed == 2
    (left,) = report.vision.skipped
    assert (str(left.bucket), left.reason) == (
        "image 896x896x2",
        "vllm-gaudi cannot run this bucket: RuntimeError: no such dummy",
    )


async def test_exhausted_time_budget_keeps_the_vision_tower_cold() -> None:
    config, card = sim_config(), Card()
    late = config.warmup.model_copy(update={"time_budget_seconds": 0.0})
    report = drive(config.model_copy(update={"warmup": late}), verbs_with_images(card)[0], card)
    assert report.vision is not None
    assert (report.vision.warmed, len(report.vision.skipped)) == (0, 3)


def test_warm_images_are_hits_and_cold_images_are_misses() -> None:
    card = Card()
    verbs, runner = verbs_with_images(card)
    planned(verbs)
    for bucket in BUCKETS[:2]:
        verbs.warm_vision(*bucket)
    verbs.start_serving()
    for images in (2, 3, 3, 4):
        serve_images(runner, images)
    assert plain(verbs.counters())["vision"] == [
        ["pixel_values 2x3x896x896", True, 1, 0],
        ["pixel_values 3x3x896x896", True, 2, 0],
        ["pixel_values 4x3x896x896", False, 1, 1],
    ]
    assert verbs.counters()["vision"] == []


def test_compiles_of_the_tower_are_not_counted_for_prompts() -> None:
    card = Card(lazy=False)
    verbs, runner = verbs_with_images(card)
    planned(verbs)
    verbs.warm("prompt", [1, 128, 0])
    verbs.start_serving()

    def step() -> None:
        serve(runner, ("prompt", (1, 90, 0)))
        serve_images(runner, 1)

    verbs.step(step)
    counters = plain(verbs.counters())
    assert [row[-1] for row in counters["met"]] == [0]
    assert [row[-1] for row in counters["vision"]] == [1]


def test_host_inputs_are_part_of_the_layout_by_value() -> None:
    grid = SimpleNamespace(
        shape=(1, 3),
        device=SimpleNamespace(type="cpu"),
        is_floating_point=lambda: False,
        numel=lambda: 3,
        tolist=lambda: [[1, 8, 10]],
    )
    inputs = {"pixel_values": Pixels((80, 1176)), "image_grid_thw": grid, "sizes": [grid]}
    assert describe_inputs(inputs) == "image_grid_thw [[1, 8, 10]], pixel_values 80x1176, sizes [[[1, 8, 10]]]"
