"""What is worked out once from a resource."""

from dataclasses import replace

from gaudi_operator.core.admission.review import forecast_question
from gaudi_operator.core.children.runtime_config import runtime_config
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import inference


def test_runtime_config_and_forecast_are_worked_out_once() -> None:
    one = inference()
    assert runtime_config(one) is runtime_config(one)
    assert forecast_question(one) is forecast_question(one)
    assert forecast_question(one, 7, 128) is forecast_question(one, 7, 128)


def test_forecast_for_other_blocks_is_another_question() -> None:
    one = inference()
    asked = [forecast_question(one), forecast_question(one, 7), forecast_question(one, 7, 256)]
    assert [each.inputs.kv_blocks for each in asked] == [None, 7, 7]
    assert asked[2].inputs.limits.block_size == 256 != asked[1].inputs.limits.block_size


def test_copy_with_another_mode_is_worked_out_anew() -> None:
    one = inference()
    assert runtime_config(one).engine.execution_mode is not ExecutionMode.EAGER
    other = replace(one, kept_mode=ExecutionMode.EAGER)
    assert runtime_config(other).engine.execution_mode is ExecutionMode.EAGER


def test_what_was_worked_out_makes_no_difference() -> None:
    one, other = inference(), inference()
    runtime_config(one)
    assert one == other
