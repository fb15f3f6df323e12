"""Models that take images, on the plugin's own code: the vision tower is warm before the first request, and counted."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, DecodeRanges, PromptRanges, RangeSettings, Strategy
from gaudi_runtime.contract.config import ExecutionMode, ItemsPerPrompt, RuntimeConfig
from gaudi_runtime.contract.report import VisionBucket
from gaudi_runtime.engines.vllm.launch import engine_arguments
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from tests.plugin.cases import COMPILE, GRAPHS, Case, configured, in_matrix
from tests.plugin.engine import Facts, Run, forked, in_own_process, on_full_card
from tests.plugin.serving import skipped
from tests.plugin.vision import GEMMA, QWEN, Size, look, make_seeing, picture, worst_gap

TOKENS = 8
POLICY = BucketPolicy(
    strategy=Strategy.LINEAR,
    prompt=PromptRanges(query=RangeSettings(min=128, step=128, max=128)),
    decode=DecodeRanges(batch_size=RangeSettings(min=1, step=1, max=1), blocks=RangeSettings(min=8, step=8, max=8)),
)


@dataclass(frozen=True)
class Seeing:
    """A model, its execution mode and the plugin's settings; prompts by their images, all of sizes that are warm.

    `cold` are images of a size that is not.
    """

    family: str
    mode: ExecutionMode
    planned: Sequence[str]
    warm: Sequence[Sequence[Size]]
    settings: dict[str, str]
    cold: Sequence[Size] = ()
    graphs: int = 0


BATCHES = tuple(f"image 896x896x{size}" for size in (1, 2, 4, 8))
SHOWN = (((56, 56),), ((200, 90), (30, 30)), ((56, 56), (64, 64), (20, 99)))
"""Gemma scales all images to one size; three of them are a batch of two and one of one."""
SIZES = {"VLLM_MULTIMODAL_BUCKETS": "64", "VLLM_MULTIMODAL_RESOLUTIONS": "140x112x1-2"}
OF_SIZES = (((112, 112),), ((140, 112),), ((140, 112), (140, 112)))
GUESSED = ("image 112x112x1", "image 140x112x1", "image 84x112x1", "image 196x112x1", "image 56x112x1")
RESOLVED = (*GUESSED, "image 140x112x2")
CASES = in_matrix(
    Seeing(GEMMA, COMPILE, BATCHES, SHOWN, {}),
    Seeing(GEMMA, GRAPHS, BATCHES, SHOWN, {}, graphs=2 * len(BATCHES)),
    Seeing(QWEN, GRAPHS, RESOLVED, OF_SIZES, SIZES, cold=((280, 112),)),
    Seeing(QWEN, COMPILE, RESOLVED, OF_SIZES, SIZES),
)


def looking(case: Seeing, checkpoint: Path) -> RuntimeConfig:
    config = configured(Case(Strategy.LINEAR, False, True, case.family, case.mode), checkpoint)
    settings = {**config.engine.settings, **case.settings}
    engine = config.engine.model_copy(update={"settings": settings})
    model = config.model.model_copy(update={"items_per_prompt": ItemsPerPrompt(image=3, video=0)})
    return config.model_copy(update={"engine": engine, "model": model, "bucketing": POLICY})


async def start_and_look(case: Seeing, run: Run) -> Facts:
    report = await run.start()
    before = run.ranks()[0]
    answers = [look(run, case.family, sizes, TOKENS) for sizes in case.warm]
    after = run.ranks()[0]
    await run.counted()
    assert run.engine.counters.vision
    facts = {"hits": run.engine.counters.vision.hits, "misses": run.engine.counters.vision.misses}
    if case.cold:
        look(run, case.family, case.cold, 1)
        await run.counted()
    return facts | {
        "report": report.model_dump(mode="json"),
        "planned": [str(each) for each in run.engine.vision_buckets()],
        "before": before,
        "answers": answers,
        "after": after,
        "cold": run.engine.counters.vision.cold,
        "recompiles": run.engine.counters.recompiles,
    }


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("seeing")
    return {
        family: Path(forked(lambda family=family: str(make_seeing(folder / family, family)), folder))
        for family in {case.family for case in CASES}
    }


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case.family}-{case.mode}")
def case(request: pytest.FixtureRequest) -> Seeing:
    found: Seeing = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Seeing, seeing: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = looking(case, seeing[case.family])
    return in_own_process(partial(start_and_look, case), config, tmp_path_factory.mktemp("vision"))


def test_what_the_plugin_plans_is_warmed_once(facts: Facts, case: Seeing) -> None:
    assert facts["planned"] == list(case.planned)
    vision = facts["report"]["vision"]
    assert (vision["planned"], vision["warmed"], vision["skipped"]) == (len(case.planned), len(case.planned), [])


def test_the_tower_has_its_graphs_before_serving(facts: Facts, case: Seeing) -> None:
    captures = facts["before"]["captures"]
    assert sum(each for name, each in captures.items() if name != "HpuModelAdapter") == case.graphs


def test_warm_images_capture_and_compile_nothing(facts: Facts, case: Seeing) -> None:
    before, after = facts["before"], facts["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert (facts["hits"], facts["misses"]) == (len(case.warm), 0)


def test_cold_images_are_counted_and_named(facts: Facts, case: Seeing) -> None:
    assert len(facts["cold"]) == bool(case.cold)
    # Without torch.compile the played card has recipes of the language model alone.
    assert facts["recompiles"] == (len(facts["cold"]) if case.mode is COMPILE else 0)


def test_answers_to_images_are_those_of_transformers(
    facts: Facts, case: Seeing, seeing: dict[str, Path], tmp_path: Path
) -> None:
    asked = [(sizes, *answer) for sizes, answer in zip(case.warm, facts["answers"], strict=True)]
    assert forked(partial(worst_gap, seeing[case.family], asked), tmp_path) < 0.15
    assert len({str(answer) for _, _, answer in asked}) == len(asked)


FULL = "image 896x896x4"


async def start_on_full_card(run: Run) -> Facts:
    """The card is full when the tower is to take a batch of four."""
    from vllm_gaudi.v1.worker.hpu_model_runner import HpuModelAdapter

    embed = HpuModelAdapter.embed_multimodal

    def watched(self: Any, **inputs: Any) -> Any:
        run_it = partial(embed, self, **inputs)
        return on_full_card(run_it) if len(inputs["pixel_values"]) == 4 else run_it()

    HpuModelAdapter.embed_multimodal = watched
    report = await run.start()
    answer = look(run, GEMMA, SHOWN[2], TOKENS)
    return {"report": report.model_dump(mode="json"), "answers": [answer]}


@pytest.fixture(scope="module")
def short(seeing: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    if not os.environ.get("PLUGIN_MATRIX"):
        pytest.skip("one more start: in make plugin only")
    return in_own_process(start_on_full_card, looking(CASES[1], seeing[GEMMA]), tmp_path_factory.mktemp("full"))


def test_full_card_leaves_larger_vision_buckets_out(short: Facts) -> None:
    vision = short["report"]["vision"]
    assert vision["warmed"] == 2
    assert [str(VisionBucket(*each["bucket"])) for each in vision["skipped"]] == [FULL, BATCHES[-1]]
    assert "PT_DEVMEM Allocation failed" in vision["skipped"][0]["reason"]


def test_what_is_beside_a_tower_without_memory_is_warm(short: Facts) -> None:
    report = short["report"]
    assert [report[each]["warmed"] for each in ("prompt", "decode")] == [16, 4]
    # Of pieces above the plugin's own limit of graph tokens, with memory or without.
    rule = "vLLM runs this shape without a graph"
    pieces = [*(f"1x128x{blocks}" for blocks in (4, 5, 6, 8)), *(f"1x512x{blocks}" for blocks in range(1, 8))]
    assert skipped(short) == {f"prompt {each}": rule for each in pieces}


def test_answers_after_the_failure_are_those_of_transformers(
    short: Facts, seeing: dict[str, Path], tmp_path: Path
) -> None:
    asked = [(SHOWN[2], *short["answers"][0])]
    assert forked(partial(worst_gap, seeing[GEMMA], asked), tmp_path) < 0.15


def parsed_by_vllm(config: RuntimeConfig) -> list[str]:
    """What vLLM's own chat handler makes of images that requests bring, name on a server, or name in a file."""
    import base64
    import io

    from vllm.engine.arg_utils import EngineArgs
    from vllm.entrypoints.chat_utils import parse_chat_messages

    arguments = parse_arguments(engine_arguments(config, None))
    model = EngineArgs.from_cli_args(arguments).create_model_config()
    stored = io.BytesIO()
    picture(30, 20, 0).save(stored, "PNG")
    brought = f"data:image/png;base64,{base64.b64encode(stored.getvalue()).decode()}"
    found = []
    for url in (brought, "http://127.0.0.1:1/image.png", "file:///etc/hostname"):
        part: Any = {"type": "image_url", "image_url": {"url": url}}
        try:
            _, media, _ = parse_chat_messages([{"role": "user", "content": [part]}], model, "openai")
            found.append(str(media["image"][0].size if media else None))
        except (ValueError, RuntimeError) as error:
            found.append(str(error))
    return found


def test_requests_bring_their_images_and_nothing_is_fetched(seeing: dict[str, Path], tmp_path: Path) -> None:
    brought, on_a_server, in_a_file = forked(partial(parsed_by_vllm, looking(CASES[0], seeing[GEMMA])), tmp_path)
    assert "30, 20" in brought
    assert "one of the allowed domains: ['NONE.INVALID']" in on_a_server
    assert "without `--allowed-local-media-path`" in in_a_file
