"""Finds odd words and fragments of docstrings that were common here once.

`python -m scripts.words` prints every place. The exit code is 1 if there are places.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NOT_CHECKED = ("scripts/words.py", "tests/unit/test_words.py", "tests/data/")
"""The files that contain the words for a reason, and the recorded data."""

WORDS = re.compile(r"\b(told|hears|nobody|somebody|whoever|beside|wished|anew)\b", re.IGNORECASE)
FRAGMENT = re.compile(r"(Of|That of|Those|None|As|By|But|What)\b")
"""The beginning of a docstring that is neither a sentence nor a noun phrase."""
CODE = ("charts", "demo", "localcluster", "operator", "runtime", "scripts", "tests")
CODE_SUFFIXES = (".py", ".go", ".yaml", ".tpl", ".txt", ".toml", ".html")


def is_checked(file: str) -> bool:
    """Return whether a file is text or code of this project."""
    is_code = file.split("/")[0] in CODE and file.endswith(CODE_SUFFIXES)
    return not file.startswith(NOT_CHECKED) and (is_code or file.endswith(".md"))


def find_places(file: str, text: str) -> Iterator[str]:
    """Yield each line with one of the words, and each docstring that begins with a fragment."""
    for number, line in enumerate(text.split("\n"), 1):
        if WORDS.search(line):
            yield f"{file}:{number}: {line.strip()[:120]}"
    if file.endswith(".py"):
        for number, line in _docstrings(text):
            if FRAGMENT.match(line):
                yield f"{file}:{number}: {line[:120]}"


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        can_have_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if can_have_docstring and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring.split("\n")[0]


def main() -> int:
    """Print all places in the files that git tracks or would add. Return 1 if there are places."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [Path(file) for file in sorted(set(files)) if is_checked(file)]
    places = [place for path in paths if path.is_file() for place in find_places(str(path), path.read_text())]
    sys.stderr.write("".join(f"{place}\nWrite this in plain English.\n" for place in places))
    return int(bool(places))


if __name__ == "__main__":
    sys.exit(main())
