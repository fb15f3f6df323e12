"""Files that are generated from code. `make generate` writes them, and `make lint` compares them with --check."""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_or_check(texts: Mapping[Path, str]) -> int:
    """Write the files that differ from their texts. With the argument --check, only print the names of these files.

    Returns the exit code, which is 1 if --check has found a difference.
    """
    stale_paths = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale_paths:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: run make generate.\n")
        return int(bool(stale_paths))
    for path in stale_paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path])
    return 0
