"""The table of knobs is complete and consistent. tests/unit/operator compares it with the API."""

import re

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.knobs.table import FLAG, Knob, KnobHome, KnobKind, KnobStatus, KnobType, knobs

ROWS = list(knobs().values())


def knobs_of(home: KnobHome) -> list[Knob]:
    return [knob for knob in ROWS if knob.home is home]


def names(rows: list[Knob]) -> list[str]:
    return [knob.name for knob in rows]


def test_table_has_every_knob_of_the_public_releases() -> None:
    assert len([knob for knob in ROWS if knob.sources != ("torch",)]) == 387


def test_no_current_knob_is_refused() -> None:
    assert names([knob for knob in knobs_of(KnobHome.REFUSED) if knob.status is KnobStatus.CURRENT]) == []


def test_only_current_knobs_are_settings() -> None:
    assert names([knob for knob in knobs_of(KnobHome.SETTINGS) if knob.status is not KnobStatus.CURRENT]) == []


def test_knob_of_a_field_has_its_name_and_a_reader() -> None:
    assert names([knob for knob in knobs_of(KnobHome.FIELD) if not knob.use or knob.reader is None]) == []


def test_every_row_names_its_sources() -> None:
    assert names([knob for knob in ROWS if not knob.sources]) == []


def test_every_setting_has_a_reader() -> None:
    assert names([knob for knob in knobs_of(KnobHome.SETTINGS) if knob.reader is None]) == []


def test_refused_knob_has_no_reader() -> None:
    assert names([knob for knob in knobs_of(KnobHome.REFUSED) if knob.reader is not None]) == []


def test_replacement_of_a_knob_is_not_refused() -> None:
    worse = [knob for knob in ROWS for each in knob.use if each in knobs() and knobs()[each].home is KnobHome.REFUSED]
    assert names(worse) == []


@pytest.mark.parametrize("knob", ROWS, ids=lambda knob: knob.name)
def test_name_has_the_spelling_of_an_argument_or_variable(knob: Knob) -> None:
    pattern = r"--[a-z][a-z_-]*" if knob.kind is KnobKind.ARGUMENT else r"[A-Z][A-Za-z0-9_]*"
    assert re.fullmatch(pattern, knob.name)


def test_boolean_has_two_values_or_is_a_flag() -> None:
    truths = [knob for knob in ROWS if knob.type is KnobType.BOOL]
    assert names([knob for knob in truths if len(knob.choices) != 2 and knob.range != FLAG]) == []
    assert names([knob for knob in truths if (knob.range == FLAG) != (knob.kind is KnobKind.ARGUMENT)]) == []


def test_knob_of_type_enum_has_values() -> None:
    assert names([knob for knob in ROWS if knob.type is KnobType.ENUM and not all(knob.choices)]) == []


def test_bounds_of_numbers_are_in_order() -> None:
    numbers = [knob for knob in ROWS if knob.type in (KnobType.INT, KnobType.FLOAT)]
    unordered = [k.name for k in numbers if None not in k.bounds and k.bounds[0] > k.bounds[1]]  # type: ignore[operator]
    assert unordered == []
    assert names([knob for knob in numbers if knob.bounds == (None, None)]) == ["VLLM_MINIMAX_M3_MOE_TOKEN_TILE"]


def test_requirements_are_existing_strategies_modes_or_devices() -> None:
    known = {"strategy": set(Strategy), "mode": set(ExecutionMode), "device": {"cpu", "hpu"}}
    wrong = [k.name for k in ROWS for key, values in k.needs.items() if not set(values) <= known.get(key, set())]
    assert wrong == []


def test_meaning_is_a_short_sentence() -> None:
    assert names([knob for knob in ROWS if not knob.meaning.endswith(".") or len(knob.meaning) > 130]) == []
    assert names([knob for knob in ROWS if "|" in knob.meaning + knob.default]) == []


def test_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        knobs()["A"] = ROWS[0]  # type: ignore[index]
