"""What we say to vLLM is what its own parser takes: names and choices of the driven releases (tests/data)."""

import json
from pathlib import Path

import pytest

from gaudi_runtime.catalog.pairs import PAIRS
from gaudi_runtime.knobs.table import Home, Kind, Knob, Reader, Status, Type, knobs
from gaudi_runtime.knobs.values import FLAG

RELEASES: dict[str, dict[str, list[str] | None]] = json.loads(
    (Path(__file__).parents[3] / "data" / "vllm_arguments.json").read_text()
)
RECORD = RELEASES[PAIRS[-1].vllm]
ARGUMENTS = [knob for knob in knobs().values() if knob.kind is Kind.ARGUMENT]
TOLD = [knob for knob in ARGUMENTS if knob.reader is Reader.VLLM]
ONLY_GIVEN = {"--enforce-eager", "--enable-lora", "--enable-expert-parallel"}
"""Flags of fields, said when they are asked for and never denied."""


LACKS = {("0.26.0", "--max-num-queued-tokens")}
"""Arguments that an older release does not have; their meaning in the table says so."""


def test_the_releases_that_are_driven_are_recorded() -> None:
    assert {pair.vllm for pair in PAIRS} == RELEASES.keys()


def test_what_an_older_release_lacks_is_said_in_the_table() -> None:
    assert {(release, knob.name) for release, taken in RELEASES.items() for knob in TOLD if knob.name not in taken} == (
        LACKS
    )
    for release, name in LACKS:
        assert f"vLLM {release} does not know it." in knobs()[name].meaning


@pytest.mark.parametrize("knob", TOLD, ids=lambda knob: knob.name)
def test_argument_that_vllm_is_told_exists(knob: Knob) -> None:
    assert knob.name in RECORD


@pytest.mark.parametrize("knob", [each for each in TOLD if each.range == FLAG], ids=lambda knob: knob.name)
def test_flag_can_be_denied(knob: Knob) -> None:
    assert knob.name in ONLY_GIVEN or knob.name.replace("--", "--no-", 1) in RECORD


@pytest.mark.parametrize("knob", [each for each in TOLD if each.type is Type.ENUM], ids=lambda knob: knob.name)
def test_every_word_of_a_choice_is_known(knob: Knob) -> None:
    assert set(knob.words) <= set(RECORD[knob.name] or knob.words)


def test_argument_that_nobody_may_give_exists() -> None:
    owned = {knob.name for knob in ARGUMENTS if knob.home is Home.REFUSED and knob.status is Status.OWNED}
    assert owned - RECORD.keys() == set()


def test_no_argument_of_vllm_looks_like_a_shortened_table_row() -> None:
    """The hatch refuses short forms, because vLLM takes them."""
    spelled = {knob.name.replace("_", "-") for knob in ARGUMENTS}
    free = RECORD.keys() - spelled - {f"--no-{name[2:]}" for name in spelled}
    assert [(name, whole) for name in free for whole in spelled if whole.startswith(name)] == []
