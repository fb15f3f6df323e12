"""A spec is read or refused, and its derived values are computed once."""

from dataclasses import replace
from typing import TypeVar

import pytest

from gaudi_operator.core.admission.spec_forecast import cached_forecast, forecast_plan, forecast_question
from gaudi_operator.core.plan_answers import PlanAnswers, PlanQuestion, PlanTooExpensive, Refusal, SynchronousAnswers
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.core.resource import SpecUnreadable, read_inference
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import inference, resource

T = TypeVar("T")


class Counted(SynchronousAnswers):
    """Answers that count the questions."""

    def __init__(self) -> None:
        """Start without questions."""
        super().__init__(2**20)
        self.count = 0

    def get(self, question: PlanQuestion[T]) -> T:
        """Count the question and return its answer."""
        self.count += 1
        return super().get(question)


def test_unknown_value_makes_a_spec_unreadable() -> None:
    with pytest.raises(SpecUnreadable, match=r"^spec\.rollout\.whenNoRoom cannot be read .* 'ReplaceInPlace' or 'Wa"):
        read_inference(resource(rollout={"whenNoRoom": "Sideways"}))


def test_runtime_config_is_computed_once() -> None:
    one = inference()
    assert runtime_config(one) is runtime_config(one)


def test_each_forecast_is_requested_once() -> None:
    answers = Counted()
    one = replace(inference(), answers=answers)
    found = [forecast_plan(one, blocks) for blocks in (None, 7, None, 7)]
    assert found[0] == found[2] != found[1] == found[3]
    assert answers.count == 2


def test_too_expensive_forecast_has_no_answer() -> None:
    answers = PlanAnswers(2**20)
    one = replace(inference(), answers=answers)
    answers.keep(forecast_question(one), Refusal(PlanTooExpensive, ()))
    assert forecast_plan(one) is None
    with pytest.raises(PlanTooExpensive):
        cached_forecast(one)


def test_forecast_for_other_blocks_is_another_question() -> None:
    one = inference()
    asked = [forecast_question(one), forecast_question(one, 7), forecast_question(one, 7, 256)]
    assert [each.inputs.kv_blocks for each in asked] == [None, 7, 7]
    assert asked[2].inputs.limits.block_size == 256 != asked[1].inputs.limits.block_size


def test_copy_with_another_mode_is_computed_again() -> None:
    one = inference()
    assert runtime_config(one).engine.execution_mode is not ExecutionMode.EAGER
    other = replace(one, kept_mode=ExecutionMode.EAGER)
    assert runtime_config(other).engine.execution_mode is ExecutionMode.EAGER


def test_computed_values_do_not_affect_equality() -> None:
    one, other = inference(), inference()
    runtime_config(one)
    assert one == other
