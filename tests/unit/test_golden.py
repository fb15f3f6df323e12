"""The rendered children of examples, pages, recorded releases and hostile specs equal the golden files.

After an intended change, run `.venv/bin/python -m tests.golden` and commit the new files with the reason of the change.
"""

import difflib
from collections.abc import Iterator
from itertools import islice

from tests.golden.files import committed, rendered

MOST_LINES = 12
"""The maximum number of lines that a failure shows of one file."""


def test_rendering_equals_the_golden_files_byte_by_byte() -> None:
    expected, found = committed(), rendered()
    differences = [
        "\n".join(islice(_difference(name, expected.get(name, ""), found.get(name, "")), MOST_LINES))
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
    assert not differences, "\n".join(["", *differences])


def _difference(name: str, expected: str, found: str) -> Iterator[str]:
    return difflib.unified_diff(
        expected.splitlines(), found.splitlines(), f"golden/{name}", f"rendered/{name}", n=1, lineterm=""
    )
