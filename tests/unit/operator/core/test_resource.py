"""A spec is read or refused, and its derived values are computed once."""

from dataclasses import replace
from typing import TypeVar

import pytest

from gaudi_operator.api.v1alpha1.scaling import Rollout
from gaudi_operator.api.v1alpha1.warmup import OnRecompiles
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.core.resource import SpecUnreadable, read_inference, read_sections
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import inference, resource

T = TypeVar("T")


def test_unknown_value_makes_a_spec_unreadable() -> None:
    with pytest.raises(SpecUnreadable, match=r"^spec\.rollout\.type cannot be read .* 'SurgeThenInPlace' or 'In"):
        read_inference(resource(rollout={"type": "Sideways"}))


def test_readable_sections_of_an_unreadable_spec_are_read() -> None:
    found = read_sections(resource(replicas=7, rollout={"type": "Sideways"}, readiness={"onRecompiles": "Ignore"}))
    assert found.unreadable
    assert found.unreadable.reason == "SpecUnreadable"
    assert (found.spec.replicas, found.spec.readiness.on_recompiles) == (7, OnRecompiles.IGNORE)
    assert found.spec.rollout == Rollout()


def test_runtime_config_is_computed_once() -> None:
    one = inference()
    assert runtime_config(one) is runtime_config(one)


def test_runtime_config_of_a_copy_is_computed_again() -> None:
    one = inference()
    assert runtime_config(one).engine.execution_mode is not ExecutionMode.EAGER
    other = replace(one, stored_mode=ExecutionMode.EAGER)
    assert runtime_config(other).engine.execution_mode is ExecutionMode.EAGER


def test_computed_values_do_not_affect_equality() -> None:
    one, other = inference(), inference()
    runtime_config(one)
    assert one == other
