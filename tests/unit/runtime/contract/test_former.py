"""A RuntimeConfig of the release before, with fields that are settings now."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gaudi_runtime.contract.former import FORMER, former_sections, with_settings
from gaudi_runtime.knobs.table import Home, knobs
from tests.unit.runtime.knobs.configs import vllm_config

WORDS = sorted({word for field in FORMER for word in field.path.split(".")} | {"settings"})
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
)


def test_configuration_of_the_release_before_is_read() -> None:
    config = vllm_config(
        engine={"layersPerGraph": 2, "settings": {"LOG_LEVEL_ALL": "4"}},
        model={"quantization": {"method": "fp8", "runtimeScales": True, "channelwise": None}},
        warmup={"compileThreads": 8, "multimodal": {"buckets": [1, 4], "resolutions": [], "execute": False}},
    )
    assert config.engine.settings == {
        "LOG_LEVEL_ALL": "4",
        "PT_HPU_COMPILE_THREAD_POOL_SIZE": "8",
        "RUNTIME_SCALE_PATCHING": "true",
        "VLLM_CONFIG_HIDDEN_LAYERS": "2",
        "VLLM_MULTIMODAL_BUCKETS": "1,4",
    }


@pytest.mark.parametrize("value", [[2], {"of": "another kind"}], ids=str)
def test_value_that_no_setting_can_have_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="layersPerGraph"):
        vllm_config(engine={"layersPerGraph": value})


@pytest.mark.parametrize("settings", ["a text", ["VLLM_CONFIG_HIDDEN_LAYERS"]], ids=str)
def test_settings_that_are_no_map_are_refused(settings: object) -> None:
    with pytest.raises(ValidationError, match="settings"):
        vllm_config(engine={"layersPerGraph": 2, "settings": settings})


@pytest.mark.parametrize("field", FORMER, ids=lambda field: field.path)
def test_what_a_field_became_is_a_setting(field: Any) -> None:
    assert knobs()[field.setting].home is Home.SETTINGS


@given(DOCUMENTS)
def test_document_is_read_the_same_a_second_time(document: Any) -> None:
    once = with_settings(document)
    assert with_settings(once) == once


@given(DOCUMENTS)
def test_document_itself_is_not_changed(document: Any) -> None:
    before = deepcopy(document)
    with_settings(document)
    assert document == before


def test_sections_with_former_fields_are_named() -> None:
    document = {"warmup": {"compileThreads": 4}, "model": {"quantization": {"channelwise": False}}}
    assert former_sections(document) == {"warmup", "model"}


def test_value_that_tells_nothing_names_no_section() -> None:
    assert former_sections({"warmup": {"compileThreads": None, "multimodal": {"execute": False}}}) == set()
