"""docs/reference/conditions.md agrees with the code, and has every reason that `kubectl gaudi status` explains."""

import re
from pathlib import Path

import pytest

from gaudi_operator.cli.kubectl.explanation import NEXT
from gaudi_operator.core.status.condition_table import CONDITION_REASONS, CONDITIONS, ConditionKind

PAGE = (Path(__file__).parents[5] / "docs" / "reference" / "conditions.md").read_text()
TABLE = PAGE.partition("## The table")[2].partition("## ")[0]
OTHERS = PAGE.partition("## The others")[2].partition("### ")[0]


def test_table_has_every_condition_in_its_order() -> None:
    rows = [line.split("`")[1] for line in TABLE.splitlines() if line.startswith("| `")]
    assert rows == [kind.type for kind in CONDITIONS]


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.type)
def test_row_has_the_normal_status_and_meaning(kind: ConditionKind) -> None:
    assert f"| `{kind.type}` | {kind.good_status} | {kind.meaning.rstrip('.')}" in TABLE


def test_every_reason_with_a_next_command_is_on_the_page() -> None:
    assert [reason for reason in NEXT if not re.search(rf"`{reason}`", PAGE)] == []


def test_every_reason_that_metrics_name_is_on_the_page() -> None:
    assert [reason for reason in sorted(CONDITION_REASONS) if f"`{reason}`" not in PAGE] == []


def test_metrics_name_every_reason_of_the_tables() -> None:
    progress = PAGE.partition("## Ready and Reconciling")[2].partition("## What the plan")[0]
    cells = [line.split(" | ")[0] for line in progress.splitlines() if line.startswith("| `")]
    cells += [line.split(" | ")[1] for line in OTHERS.splitlines() if line.startswith("| `")]
    documented = {reason for cell in cells for reason in re.findall(r"`([A-Z]\w+)`", cell)}
    assert documented - CONDITION_REASONS == {"FailedGetPodsMetric"}
