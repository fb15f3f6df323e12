"""A field by its former name is read as if it had been given by its present one, or as the setting that it became."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.api.v1alpha1.engine import MOST_SETTINGS
from gaudi_operator.api.v1alpha1.renamed import whole_percent, with_present_names
from gaudi_runtime.contract.former import FORMER
from tests.unit.operator.api.schema_nodes import SPEC
from tests.unit.operator.core.resources import inference


def test_resource_may_say_a_share_by_its_former_name() -> None:
    spec = inference(engine={"deviceMemoryUtilization": 0.85}, warmup={"graphMemoryShare": 0.2, "promptRatio": 0}).spec
    assert spec.engine.device_memory_utilization_percent == 85
    assert (spec.warmup.graph_memory_percent, spec.warmup.prompt_graph_percent) == (20, 0)


def test_present_name_counts_beside_a_default_by_the_former() -> None:
    spec = inference(engine={"deviceMemoryUtilization": 0.9, "deviceMemoryUtilizationPercent": 80}).spec
    assert spec.engine.device_memory_utilization_percent == 80


def test_former_name_without_a_value_counts_as_left_out() -> None:
    assert with_present_names({"warmup": {"promptRatio": None}}) == {"warmup": {}}


def test_what_is_given_is_not_changed() -> None:
    given = {"warmup": {"promptRatio": 0.5}}
    assert with_present_names(given) == {"warmup": {"promptGraphPercent": 50}}
    assert given == {"warmup": {"promptRatio": 0.5}}


@pytest.mark.parametrize(("share", "percent"), [(0, 0), (0.001, 1), (0.125, 12), (0.29, 29), (0.999, 99), (1.0, 100)])
def test_share_becomes_the_nearest_percent_that_means_as_much(share: float, percent: int) -> None:
    assert whole_percent(share) == percent


@given(st.integers(0, 100))
def test_percent_said_as_a_share_comes_back(percent: int) -> None:
    assert whole_percent(percent / 100) == percent


@pytest.mark.parametrize("value", ["0.5", True, -1, 2, [0.5], float("nan")])
def test_what_is_no_share_is_left_to_the_schema(value: object) -> None:
    assert whole_percent(value) is value


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ({"warmup": {"compileThreads": 4}}, {"PT_HPU_COMPILE_THREAD_POOL_SIZE": "4"}),
        ({"engine": {"layersPerGraph": 2}}, {"VLLM_CONFIG_HIDDEN_LAYERS": "2"}),
        ({"model": {"quantization": {"method": "fp8", "runtimeScales": False}}}, {"RUNTIME_SCALE_PATCHING": "false"}),
        ({"model": {"quantization": {"method": "fp8", "channelwise": True}}}, {"VLLM_HPU_FORCE_CHANNEL_FP8": "true"}),
        ({"warmup": {"multimodal": {"execute": True}}}, {"VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY": "true"}),
        ({"warmup": {"multimodal": {"execute": False}}}, {}),
        ({"warmup": {"compileThreads": None}, "engine": {"settings": None}}, {}),
    ],
    ids=str,
)
def test_field_is_read_as_the_setting_that_it_became(section: dict[str, Any], setting: dict[str, str]) -> None:
    assert inference(**section).spec.engine.settings == setting


def test_setting_counts_beside_the_field_that_became_it() -> None:
    spec = inference(engine={"layersPerGraph": 2, "settings": {"VLLM_CONFIG_HIDDEN_LAYERS": 4}}).spec
    assert spec.engine.settings == {"VLLM_CONFIG_HIDDEN_LAYERS": "4"}


def test_full_map_of_settings_has_room_for_former_fields() -> None:
    settings = {f"A{number}": "1" for number in range(MOST_SETTINGS)}
    spec = inference(warmup={"compileThreads": 4}, engine={"layersPerGraph": 2, "settings": settings}).spec
    assert len(spec.engine.settings) == MOST_SETTINGS + 2


DEPRECATED = [*(field.path for field in FORMER), "warmup.sampler", "warmup.defragmenter"]


@pytest.mark.parametrize("path", DEPRECATED)
def test_schema_calls_the_field_deprecated(path: str) -> None:
    assert SPEC[f"spec.{path}"]["description"].startswith("Deprecated: ")


@pytest.mark.parametrize("path", DEPRECATED)
def test_server_fills_in_no_deprecated_field(path: str) -> None:
    assert "default" not in SPEC[f"spec.{path}"]
