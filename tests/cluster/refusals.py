"""The table of bad objects (refusals.yaml): which component refuses each of them, and what happens to serving pods.

The tests of this folder that call `check` determine the rows on a real API server. CONTRIBUTING.md has the command that
records the table again after an intended change.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

TABLE = Path(__file__).with_name("refusals.yaml")
ABOUT = """\
# Bad objects: who refuses each of them, with which reason, and whether the serving pods stay as they are. The sections
# without `pods` are writes that are refused, so nothing changes.
# Recorded by the tests that call `check` of refusals.py. A row may change only in a commit of its own, with the reason.
"""

NONE = "none"
"""The component in the row of an object that is not refused."""

Row = Mapping[str, str]
Rows = Mapping[str, Row]


def refused_write(message: str | None, *reasons: str) -> Row:
    """Return the row of a write with this message of the API server: who refuses it, and the reason in the message."""
    if not message:
        return {"by": NONE}
    policy = re.search(r"ValidatingAdmissionPolicy '[^']*-(\w+)'", message)
    reason = next((each for each in reasons if each in message), message)
    return {"by": f"{policy[1]} policy" if policy else "API server", "reason": reason}


def check(section: str, found: Rows) -> None:
    """Compare the rows of a section with the table. The failure names each row that is missing, new or changed.

    An object without a refusal is always a failure, so it cannot be recorded.
    """
    accepted = [case for case, row in found.items() if row["by"] == NONE]
    assert not accepted, f"{section}: no component refuses {accepted}"
    table: dict[str, Rows] = yaml.safe_load(TABLE.read_text()) if TABLE.exists() else {}
    if os.environ.get("GAUDI_RECORD_REFUSALS"):
        TABLE.write_text(ABOUT + "".join(_lines({**table, section: found})))
        return
    recorded = table.get(section, {})
    differences = [
        f"{section}, {case}: recorded {recorded.get(case)}, found {found.get(case)}"
        for case in sorted(recorded.keys() | found.keys())
        if recorded.get(case) != found.get(case)
    ]
    assert not differences, "\n".join(["rows of refusals.yaml differ:", *differences])


def _lines(table: Mapping[str, Rows]) -> Iterator[str]:
    """Yield the table with one line for each row."""
    for section, rows in sorted(table.items()):
        yield f"{section}:\n"
        yield from (f"  {json.dumps(case)}: {json.dumps(row)}\n" for case, row in sorted(rows.items()))
