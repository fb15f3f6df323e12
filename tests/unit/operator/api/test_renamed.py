"""A field by its former name is read as if it had been given by its present one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.api.v1alpha1.renamed import whole_percent, with_present_names
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
