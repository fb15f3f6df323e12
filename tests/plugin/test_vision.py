"""Models with image input on the plugin's own code. The vision tower is warm before the first request."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketingRangeSettings, BucketPolicy, DecodeRanges, PromptRanges, Strategy
from gaudi_runtime.contract.config import ExecutionMode, ItemsPerPrompt, RuntimeConfig
from gaudi_runtime.contract.report import VisionBucket
from gaudi_runtime.engines.vllm.launch import engine_arguments
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from tests.plugin.cases import COMPILE, GRAPHS, Case, case_config, in_matrix
from tests.plugin.engine import Facts, Run, call_in_fork, run_in_fork, with_full_card
from tests.plugin.serving import skipped_shapes
from tests.plugin.vision import GEMMA, QWEN, Size, answer_images, largest_logit_gap, make_vision_checkpoint, picture

TOKENS = 8
POLICY = BucketPolicy(
    strategy=Strategy.LINEAR,
    prompt=PromptRanges(query=BucketingRangeSettings(min=128, step=128, max=128)),
    decode=DecodeRanges(
        batch_size=BucketingRangeSettings(min=1, step=1, max=1), blocks=BucketingRangeSettings(min=8, step=8, max=8)
    ),
)


@dataclass(frozen=True)
class VisionCase:
    """A model, an execution mode, settings of the plugin, and prompts as lists of images.

    The images in `warm` have warm sizes. The images in `cold` have a size that is not warm.
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
"""Gemma scales all images to one size. Three of them are a batch of two and a batch of one."""
SIZES = {"VLLM_MULTIMODAL_BUCKETS": "64", "VLLM_MULTIMODAL_RESOLUTIONS": "140x112x1-2"}
OF_SIZES = (((112, 112),), ((140, 112),), ((140, 112), (140, 112)))
GUESSED = ("image 112x112x1", "image 140x112x1", "image 84x112x1", "image 196x112x1", "image 56x112x1")
RESOLVED = (*GUESSED, "image 140x112x2")
CASES = in_matrix(
    VisionCase(GEMMA, COMPILE, BATCHES, SHOWN, {}),
    VisionCase(GEMMA, GRAPHS, BATCHES, SHOWN, {}, graphs=2 * len(BATCHES)),
    VisionCase(QWEN, GRAPHS, RESOLVED, OF_SIZES, SIZES, cold=((280, 112),)),
    VisionCase(QWEN, COMPILE, RESOLVED, OF_SIZES, SIZES),
)


def vision_config(case: VisionCase, checkpoint: Path) -> RuntimeConfig:
    config = case_config(Case(Strategy.LINEAR, False, True, case.family, case.mode), checkpoint)
    settings = {**config.engine.settings, **case.settings}
    engine = config.engine.model_copy(update={"settings": settings})
    model = config.model.model_copy(update={"items_per_prompt": ItemsPerPrompt(image=3, video=0)})
    return config.model_copy(update={"engine": engine, "model": model, "bucketing": POLICY})


async def start_and_answer_images(case: VisionCase, run: Run) -> Facts:
    report = await run.start()
    before = run.ranks()[0]
    answers = [answer_images(run, case.family, sizes, TOKENS) for sizes in case.warm]
    after = run.ranks()[0]
    await run.count_batches()
    assert run.engine.counters.vision
    facts = {"hits": run.engine.counters.vision.hits, "misses": run.engine.counters.vision.misses}
    if case.cold:
        answer_images(run, case.family, case.cold, 1)
        await run.count_batches()
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
def vision_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("seeing")
    return {
        family: Path(call_in_fork(lambda family=family: str(make_vision_checkpoint(folder / family, family)), folder))
        for family in {case.family for case in CASES}
    }


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case.family}-{case.mode}")
def case(request: pytest.FixtureRequest) -> VisionCase:
    found: VisionCase = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: VisionCase, vision_checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = vision_config(case, vision_checkpoints[case.family])
    return run_in_fork(partial(start_and_answer_images, case), config, tmp_path_factory.mktemp("vision"))


def test_every_planned_vision_bucket_is_warmed_once(facts: Facts, case: VisionCase) -> None:
    assert facts["planned"] == list(case.planned)
    vision = facts["report"]["vision"]
    assert (vision["planned"], vision["warmed"], vision["skipped"]) == (len(case.planned), len(case.planned), [])


def test_vision_tower_has_its_graphs_before_serving(facts: Facts, case: VisionCase) -> None:
    captures = facts["before"]["captures"]
    assert sum(each for name, each in captures.items() if name != "HpuModelAdapter") == case.graphs


def test_warm_images_cause_no_capture_and_no_compile(facts: Facts, case: VisionCase) -> None:
    before, after = facts["before"], facts["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert (facts["hits"], facts["misses"]) == (len(case.warm), 0)


def test_cold_images_are_listed_and_counted(facts: Facts, case: VisionCase) -> None:
    assert len(facts["cold"]) == bool(case.cold)
    # Without torch.compile, the emulated card has recipes of the language model only. The card therefore counts no
    # recompilations of the vision tower.
    assert facts["recompiles"] == (len(facts["cold"]) if case.mode is COMPILE else 0)


def test_answers_to_images_equal_those_of_transformers(
    facts: Facts, case: VisionCase, vision_checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    prompts = [(sizes, *answer) for sizes, answer in zip(case.warm, facts["answers"], strict=True)]
    assert call_in_fork(partial(largest_logit_gap, vision_checkpoints[case.family], prompts), tmp_path) < 0.15
    assert len({str(answer) for _, _, answer in prompts}) == len(prompts)


FULL = "image 896x896x4"


async def start_on_full_card(run: Run) -> Facts:
    """Start the engine. The card is full when the vision tower runs a batch of four."""
    from vllm_gaudi.v1.worker.hpu_model_runner import HpuModelAdapter

    embed = HpuModelAdapter.embed_multimodal

    def watched(self: Any, **inputs: Any) -> Any:
        run_it = partial(embed, self, **inputs)
        return with_full_card(run_it) if len(inputs["pixel_values"]) == 4 else run_it()

    HpuModelAdapter.embed_multimodal = watched
    report = await run.start()
    answer = answer_images(run, GEMMA, SHOWN[2], TOKENS)
    return {"report": report.model_dump(mode="json"), "answers": [answer]}


@pytest.fixture(scope="module")
def low_memory_facts(vision_checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    if not os.environ.get("PLUGIN_MATRIX"):
        pytest.skip("one more start: in make plugin only")
    return run_in_fork(
        start_on_full_card, vision_config(CASES[1], vision_checkpoints[GEMMA]), tmp_path_factory.mktemp("full")
    )


def test_full_card_skips_larger_vision_buckets(low_memory_facts: Facts) -> None:
    vision = low_memory_facts["report"]["vision"]
    assert vision["warmed"] == 2
    assert [str(VisionBucket(*each["bucket"])) for each in vision["skipped"]] == [FULL, BATCHES[-1]]
    assert "PT_DEVMEM Allocation failed" in vision["skipped"][0]["reason"]


def test_language_model_warms_up_if_memory_ends_in_the_tower(low_memory_facts: Facts) -> None:
    report = low_memory_facts["report"]
    assert [report[each]["warmed"] for each in ("prompt", "decode")] == [16, 4]
    # Even with enough memory, the plugin captures no graphs for pieces of split prompts above its own token limit.
    pieces = [*(f"1x128x{blocks}" for blocks in (4, 5, 6, 8)), *(f"1x512x{blocks}" for blocks in range(1, 8))]
    assert set(skipped_shapes(low_memory_facts)) == {f"prompt {each}" for each in pieces}
    assert {each["cause"] for each in report["skipped"]} == {"Limit"}


def test_answers_of_the_full_card_equal_those_of_transformers(
    low_memory_facts: Facts, vision_checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    prompts = [(SHOWN[2], *low_memory_facts["answers"][0])]
    assert call_in_fork(partial(largest_logit_gap, vision_checkpoints[GEMMA], prompts), tmp_path) < 0.15


def parse_with_vllm(config: RuntimeConfig) -> list[str]:
    """Return the results of vLLM's chat handler for three images: in the request, on a server, and in a file."""
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


def test_images_in_requests_are_parsed_and_urls_are_refused(
    vision_checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    brought, on_a_server, in_a_file = call_in_fork(
        partial(parse_with_vllm, vision_config(CASES[0], vision_checkpoints[GEMMA])), tmp_path
    )
    assert "30, 20" in brought
    assert "one of the allowed domains: ['NONE.INVALID']" in on_a_server
    assert "without `--allowed-local-media-path`" in in_a_file
