"""Plans with gaps: batches without a bucket are refused unless the spec allows them."""

from typing import Any

import pytest

from gaudi_operator.core.admission.forecast_checks import check_plan_gaps
from gaudi_operator.core.admission.spec_forecast import forecast_question
from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.errors import Problem
from tests.support.builders import merged
from tests.unit.operator.core.resources import inference

FILE = "(1, 16, 0)\n(1, 256, 0)\n([1, 2, 4], 1, [8, 64])"
GAPS = "(1, 16, 0)\n(1, 128, 0)\n([1, 2, 4], 1, [8, 64])"


def refused(file: str, **spec: Any) -> Problem | None:
    return check_plan_gaps(inference(**merged({"bucketing": {"strategy": "File", "file": file}}, spec)))


def test_batches_without_a_bucket_are_refused_with_an_example() -> None:
    assert refused(GAPS) == Problem(
        "BucketsMissing",
        "50.0 % of the prompt shapes that the limits admit have no bucket: 1 gap from (1, 129, 0) to (1, 256, 0). A "
        "request with such a batch would wait for a compile. Add buckets for these batches to spec.bucketing, or set "
        "spec.bucketing.allowGaps to true.",
    )


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        (FILE, {}),
        (GAPS, {"bucketing": {"allowGaps": True}}),
        (GAPS, {"warmup": {"enabled": False}}),
        ("(1, 512, 0)\n(1, 1, 8)", {}),
    ],
    ids=["no gaps", "allowed gaps", "no warm-up", "no plan"],
)
def test_plan_without_relevant_gaps_is_accepted(file: str, spec: dict[str, Any]) -> None:
    assert refused(file, **spec) is None


def test_forecast_question_contains_the_policy_once() -> None:
    asked = inference(bucketing={"strategy": "Linear", "prompt": {"query": {"max": 128}}})
    question = forecast_question(asked)
    assert question.policy.prompt.query.max == 128
    assert question.inputs.policy == BucketPolicy()
