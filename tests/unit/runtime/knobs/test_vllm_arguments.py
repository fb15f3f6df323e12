"""vLLM's own parser accepts our arguments: names and choices of the supported releases (tests/data)."""

import json
from pathlib import Path

import pytest

from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.knobs.table import FLAG, Knob, KnobHome, KnobKind, KnobReader, KnobStatus, KnobType, knobs

RELEASES: dict[str, dict[str, list[str] | None]] = json.loads(
    (Path(__file__).parents[3] / "data" / "vllm_arguments.json").read_text()
)
RECORD = RELEASES[PAIRS[-1].vllm]
ARGUMENTS = [knob for knob in knobs().values() if knob.kind is KnobKind.ARGUMENT]
PASSED = [knob for knob in ARGUMENTS if knob.reader is KnobReader.VLLM]
ONLY_GIVEN = {"--enforce-eager", "--enable-lora", "--enable-expert-parallel"}
"""Flags of fields, which are set and never negated."""


LACKS = {("0.26.0", "--max-num-queued-tokens")}
"""Arguments that an older release lacks, as their meaning in the table states."""


def test_every_supported_release_is_recorded() -> None:
    assert {pair.vllm for pair in PAIRS} == RELEASES.keys()


def test_meaning_names_releases_without_the_argument() -> None:
    assert {
        (release, knob.name) for release, taken in RELEASES.items() for knob in PASSED if knob.name not in taken
    } == (LACKS)
    for release, name in LACKS:
        assert f"vLLM {release} does not know it." in knobs()[name].meaning


@pytest.mark.parametrize("knob", PASSED, ids=lambda knob: knob.name)
def test_passed_argument_exists_in_vllm(knob: Knob) -> None:
    assert knob.name in RECORD


@pytest.mark.parametrize("knob", [each for each in PASSED if each.range == FLAG], ids=lambda knob: knob.name)
def test_flag_can_be_negated(knob: Knob) -> None:
    assert knob.name in ONLY_GIVEN or knob.name.replace("--", "--no-", 1) in RECORD


@pytest.mark.parametrize("knob", [each for each in PASSED if each.type is KnobType.ENUM], ids=lambda knob: knob.name)
def test_values_of_an_enum_argument_are_accepted_by_vllm(knob: Knob) -> None:
    assert set(knob.choices) <= set(RECORD[knob.name] or knob.choices)


def test_refused_argument_exists_in_vllm() -> None:
    owned = {knob.name for knob in ARGUMENTS if knob.home is KnobHome.REFUSED and knob.status is KnobStatus.OWNED}
    assert owned - RECORD.keys() == set()


def test_no_vllm_argument_is_a_prefix_of_a_table_row() -> None:
    """vLLM accepts abbreviated arguments, so extraArgs refuses abbreviations."""
    spelled = {knob.name.replace("_", "-") for knob in ARGUMENTS}
    free = RECORD.keys() - spelled - {f"--no-{name[2:]}" for name in spelled}
    assert [(name, whole) for name in free for whole in spelled if whole.startswith(name)] == []
