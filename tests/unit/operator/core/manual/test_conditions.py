"""The pages of conditions and troubleshooting agree with the code, and have every reason that commands explain."""

import re
from pathlib import Path

import pytest

from gaudi_operator.cli.kubectl.explanation import NEXT
from gaudi_operator.core.status.condition_table import CONDITION_REASONS, CONDITIONS, ConditionTableRow

DOCS = Path(__file__).parents[5] / "docs"
PAGE = (DOCS / "reference" / "conditions.md").read_text()
STALLED = (DOCS / "how-to" / "troubleshoot.md").read_text().partition("## Stalled: ")[2]
TABLE = PAGE.partition("## The table")[2].partition("## ")[0]
OTHERS = PAGE.partition("## The others")[2].partition("### ")[0]


def test_table_has_every_condition_in_its_order() -> None:
    rows = [line.split("`")[1] for line in TABLE.splitlines() if line.startswith("| `")]
    assert rows == [kind.type for kind in CONDITIONS]


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.type)
def test_row_has_the_normal_status_and_meaning(kind: ConditionTableRow) -> None:
    assert f"| `{kind.type}` | {kind.good_status} | {kind.meaning.rstrip('.')}" in TABLE


def test_every_reason_with_a_next_command_is_on_the_page() -> None:
    assert [reason for reason in NEXT if f"`{reason}`" not in PAGE + STALLED] == []


def test_every_reason_that_metrics_name_is_on_the_page() -> None:
    assert [reason for reason in sorted(CONDITION_REASONS) if f"`{reason}`" not in PAGE + STALLED] == []


def test_metrics_name_every_reason_of_the_tables() -> None:
    progress = PAGE.partition("## Ready and Reconciling")[2].partition("## What the plan")[0] + STALLED
    cells = [line.split(" | ")[0] for line in progress.splitlines() if line.startswith("| `")]
    cells += [line.split(" | ")[1] for line in OTHERS.splitlines() if line.startswith("| `")]
    documented = {reason for cell in cells for reason in re.findall(r"`([A-Z]\w+)`", cell)}
    assert documented - CONDITION_REASONS == {"FailedGetPodsMetric"}
