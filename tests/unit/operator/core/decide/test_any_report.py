"""Any report within the contract leads to a status that the API server accepts."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gaudi_runtime.contract.preparation import Preparation
from gaudi_runtime.contract.report import (
    ColdShape,
    MemorySplitReport,
    Phase,
    PhaseProgressReport,
    RuntimeFailureReport,
)
from tests.support.builders import copied
from tests.support.conformance import violations
from tests.unit.operator.core.stories import pod_names, served

MOST_COUNT, MOST, MOST_SECONDS, INT64 = 1_000_000, 2**60, 1e9, 2**63 - 1
LARGE = st.sampled_from([0, 1, 2**31, MOST])
SECONDS = st.sampled_from([0.0, 0.4, MOST_SECONDS])
PROGRESS = st.integers(0, MOST_COUNT).flatmap(
    lambda planned: st.builds(
        PhaseProgressReport,
        planned=st.just(planned),
        warmed=st.integers(0, planned),
        captured=st.integers(0, planned),
        preparation=st.sampled_from(Preparation),
        left_out_by_limit=st.integers(0, MOST_COUNT),
        left_out_for_memory=st.integers(0, MOST_COUNT),
        left_out_bytes=LARGE,
        graph_bytes=LARGE,
    )
)
FIELDS = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(Phase),
        "sequence": LARGE,
        "prompt": PROGRESS,
        "decode": PROGRESS,
        "elapsed_seconds": SECONDS,
        "eta_seconds": st.none() | SECONDS,
        "recompiles_since_ready": st.sampled_from([0, MOST_COUNT]),
        "memory": st.builds(MemorySplitReport, free=LARGE, usable=LARGE, graphs=LARGE, kv_cache=LARGE, kv_blocks=LARGE),
        "failure": st.none() | st.just(RuntimeFailureReport(reason="R" * 64, message="m" * 1500 + ".")),
        "cold_shapes": st.lists(
            st.builds(ColdShape, phase=st.just("decode"), shape=st.tuples(LARGE, LARGE, LARGE), count=st.just(1)),
            max_size=2,
        ).map(tuple),
    }
)


SERVED = served(replicas=1)


def numbers(value: Any) -> list[int]:
    """Return all integers of a status."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list | tuple):
        return [number for each in value for number in numbers(each)]
    return [value] if isinstance(value, int) else []


@given(FIELDS)
@settings(max_examples=60, deadline=None)
def test_any_report_results_in_a_valid_status(fields: dict[str, Any]) -> None:
    cluster = copied(SERVED)
    cluster.report(pod_names(cluster)[0], **fields)
    cluster.operate()
    status = cluster.resource["status"]
    assert violations(cluster.resource) == []
    assert max(numbers(status)) <= INT64
    assert len(json.dumps(status)) < 64 * 1024


@pytest.mark.parametrize(
    "progress",
    [{"warmed": 9}, {"captured": 9}, {"cached": 9}, {"warmed": -1}, {"graphBytes": 2 * MOST}],
    ids=str,
)
def test_report_beyond_the_plan_or_any_card_is_invalid(progress: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        PhaseProgressReport.model_validate({"planned": 8, **progress})
