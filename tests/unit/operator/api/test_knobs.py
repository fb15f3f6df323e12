"""Agreement of the table of knobs with the API fields."""

import pytest

from gaudi_runtime.knobs.table import Knob, knobs
from tests.unit.operator.api.schema_nodes import SPEC

NAMED = [knob for knob in knobs().values() if knob.use]


@pytest.mark.parametrize("knob", NAMED, ids=lambda knob: knob.name)
def test_fields_named_in_the_table_exist(knob: Knob) -> None:
    assert [each for each in knob.use if each not in knobs() and f"spec.{each}" not in SPEC] == []


def test_settings_limits_admit_the_longest_knob_name() -> None:
    longest = max(map(len, knobs()))
    assert longest <= 128
    assert SPEC["spec.engine.settings"]["maxProperties"] >= 128
