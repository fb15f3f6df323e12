"""The warm-up of logs 000 and 002, reproduced by the sim engine: Llama 3.1 8B on one Gaudi 2, batch 4, length 2048."""

import json
import logging
import re
from pathlib import Path

import pytest

from gaudi_runtime.contract.report import WarmupReport
from tests.unit.runtime.engines.sim.reference import reference_config
from tests.unit.runtime.warmup.virtual import VirtualClock, start_on_virtual_clock

GIB = 2**30
LOGS = json.loads((Path(__file__).parents[4] / "data" / "reference_plans.json").read_text())


@pytest.fixture
async def story(caplog: pytest.LogCaptureFixture) -> tuple[WarmupReport, list[str]]:
    """The report at the end of warm-up, and the log."""
    caplog.set_level(logging.INFO)
    report = start_on_virtual_clock(reference_config(), VirtualClock())
    # Leave out the log lines about host memory, because they depend on the machine that runs the test.
    return report, [each.getMessage() for each in caplog.records if each.name != "gaudi_runtime.process.host_memory"]


def captures(lines: list[str]) -> list[tuple[str, int, int]]:
    """Return (phase, batch size, length) of every capture, in the order of the log."""
    pattern = re.compile(r"\[Warmup\]\[Graph/(\w+)\]\[\d+/\d+\] batch_size:(\d+) query_len:(\d+) num_blocks:(\d+)")
    found = (match.groups() for match in map(pattern.match, lines) if match)
    return [(phase, int(batch), max(int(query), int(blocks))) for phase, batch, query, blocks in found]


async def test_two_seeds_plan_24_prompt_and_48_decode_buckets(story: tuple[WarmupReport, list[str]]) -> None:
    report, lines = story
    assert (report.prompt.planned, report.decode.planned) == (24, 48)
    assert lines[1] == "Prompt bucket config (min, step, max_warmup) bs:[1, 32, 4], query:[128, 128, 1024]"
    assert lines[2].startswith("Decode bucket config (min, step, max_warmup) bs:[1, 128, 4], block:[128, 128, ")
    assert lines[3].startswith("Generated 24 prompt buckets [bs, query, num_blocks]: [[1, 128, 0], [1, 256, 0], ")
    assert lines[4].startswith("Generated 48 decode buckets [bs, query, num_blocks]: [[1, 1, 128], [1, 1, 256], ")


async def test_seeds_000_and_002_split_the_memory_as_logged(story: tuple[WarmupReport, list[str]]) -> None:
    """The logs have 79.16 GiB free, 39.58 GiB usable, 15.83 GiB for graphs and 23.75 GiB for the KV cache.

    A formula gives the size of the workspace.
    """
    memory = story[0].memory
    assert memory is not None
    sizes = (memory.free, memory.usable, memory.graphs, memory.kv_cache)
    assert [size / GIB for size in sizes] == pytest.approx([79.16, 39.58, 15.83, 23.75], abs=0.03)


async def test_seeds_000_and_002_compile_largest_first(story: tuple[WarmupReport, list[str]]) -> None:
    compiled = [line.split(" free_mem")[0] for line in story[1] if re.match(r"\[Warmup\]\[(Prompt|Decode)\]", line)]
    assert compiled[:2] == [
        "[Warmup][Prompt][1/24] batch_size:4 query_len:1024 num_blocks:0",
        "[Warmup][Prompt][2/24] batch_size:4 query_len:896 num_blocks:0",
    ]
    assert compiled[-2:] == [
        "[Warmup][Decode][47/48] batch_size:2 query_len:1 num_blocks:128",
        "[Warmup][Decode][48/48] batch_size:1 query_len:1 num_blocks:128",
    ]


async def test_two_seeds_capture_11_prompt_48_decode_then_4_prompt(
    story: tuple[WarmupReport, list[str]],
) -> None:
    captured = captures(story[1])
    assert [phase for phase, _, _ in captured] == ["Prompt"] * 11 + ["Decode"] * 48 + ["Prompt"] * 4
    assert captured[0] == ("Prompt", 1, 128)
    assert captured[10:12] == [("Prompt", 1, 896), ("Decode", 4, 128)]
    assert captured[58:] == [
        ("Decode", 1, 2048),
        ("Prompt", 4, 256),
        ("Prompt", 2, 512),
        ("Prompt", 1, 1024),
        ("Prompt", 2, 640),
    ]


async def test_seeds_end_with_62_5_percent_prompt_and_all_decode(
    story: tuple[WarmupReport, list[str]],
) -> None:
    report, lines = story
    assert (report.prompt.captured, report.decode.captured) == (15, 48)
    prompt, decode = [line for line in lines if re.match(r"Graph/\w+ captured", line)]
    buckets = [[batch, query, 0] for batch, query in LOGS["captured_prompt"]]
    assert prompt == f"Graph/Prompt captured:15 (62.5%) used_mem:13.94 GiB buckets:{buckets}"
    assert decode.startswith("Graph/Decode captured:48 (100.0%) used_mem:161.9 MiB buckets:[[1, 1, 128], ")


async def test_two_seeds_warm_up_in_49_seconds_and_14_gib(story: tuple[WarmupReport, list[str]]) -> None:
    """The simulation takes 50 s, and the log states 49 s.

    The log's timestamps are whole seconds, and the rates of the simulation are derived from each part of the log.
    """
    assert "50 secs" in story[1][-1]
    assert "14.1 GiB" in story[1][-1]


async def test_two_seeds_skip_nine_prompt_buckets_with_their_bytes(
    story: tuple[WarmupReport, list[str]],
) -> None:
    report = story[0]
    assert report.skipped_total == 24 - 15
    assert {skipped.phase for skipped in report.skipped} == {"prompt"}
    assert all("left for prompt" in skipped.reason for skipped in report.skipped)


async def test_ratio_of_0_3_ends_with_the_same_graphs() -> None:
    report = start_on_virtual_clock(reference_config(prompt_ratio=0.3), VirtualClock())
    assert (report.prompt.captured, report.decode.captured) == (15, 48)
