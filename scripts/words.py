"""Counts odd words and fragments of docstrings that were common here once. Their number must not rise.

`python -m scripts.words` writes the counts of each file to scripts/words.csv. It fails if a folder has more than the
file allows. `--check` also fails if the file is out of date. `--list` prints every place.
"""

import ast
import csv
import io
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

BASELINE = Path("scripts/words.csv")
HEADER = ("file", "words", "fragments")
NOT_COUNTED = ("scripts/words.py", "tests/unit/test_words.py", "tests/data/")
"""The files that contain the words for a reason, and the recorded data."""

WORDS = re.compile(r"\b(told|hears|nobody|somebody|whoever|beside|wished|anew)\b", re.IGNORECASE)
FRAGMENT = re.compile(r"(Of|That of|Those|None|As|By|But|What)\b")
"""The beginning of a docstring that is neither a sentence nor a noun phrase."""
CODE = ("charts", "demo", "localcluster", "operator", "runtime", "scripts", "tests")
CODE_SUFFIXES = (".py", ".go", ".yaml", ".tpl", ".txt", ".toml", ".html")


class Count(NamedTuple):
    """The number of words and the number of fragments."""

    words: int = 0
    fragments: int = 0


class Place(NamedTuple):
    """One line that has one of the words, or in which a docstring begins with a fragment."""

    file: str
    line: int
    text: str
    count: Count


Counts = dict[str, Count]
"""The counts of the files that have words or fragments."""


def folder_of(file: str) -> str | None:
    """Return the folder that a file counts for; None if the file is not counted."""
    if file.startswith(NOT_COUNTED):
        return None
    if file.endswith(".md"):
        return "docs"
    top = file.split("/")[0]
    return top if top in CODE and file.endswith(CODE_SUFFIXES) else None


def find_places(file: str, text: str) -> Iterator[Place]:
    """Find every place of a file."""
    for number, line in enumerate(text.split("\n"), 1):
        if matches := WORDS.findall(line):
            yield Place(file, number, line.strip(), Count(words=len(matches)))
    if file.endswith(".py"):
        for number, line in _docstrings(text):
            if FRAGMENT.match(line):
                yield Place(file, number, line, Count(fragments=1))


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        can_have_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if can_have_docstring and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring.split("\n")[0]


def count_places(all_places: Iterable[Place]) -> Counts:
    """Return the count of each file, in the order of their names."""
    by_file = groupby(sorted(all_places), key=lambda place: place.file)
    return {file: _sum(place.count for place in file_places) for file, file_places in by_file}


def total(counts: Mapping[str, Count], folder: str) -> Count:
    """Return the count of a folder."""
    return _sum(count for file, count in counts.items() if folder_of(file) == folder)


def _sum(counts: Iterable[Count]) -> Count:
    all_counts = tuple(counts)
    return Count(sum(count.words for count in all_counts), sum(count.fragments for count in all_counts))


def find_increases(all_places: Iterable[Place], baseline: Mapping[str, Count]) -> list[str]:
    """Return a sentence for each folder that has more than its baseline, with the places in the files that have more.

    A file may have more than before if other files of its folder have fewer, because text may move between files.
    """
    all_places = list(all_places)
    counts = count_places(all_places)
    messages = []
    for folder in sorted({folder_of(file) or "" for file in counts}):
        now, before = (total(counts, folder), total(baseline, folder))
        if now.words > before.words or now.fragments > before.fragments:
            messages.append(
                f"{folder}: {now.words} words and {now.fragments} fragments of docstrings; {BASELINE} allows "
                f"{before.words} and {before.fragments}. Rewrite the new ones in plain English. They are among:"
            )
            messages += [
                f"{place.file}:{place.line}: {place.text[:120]}"
                for place in all_places
                if folder_of(place.file) == folder and _has_more(place, counts, baseline)
            ]
    return messages


def _has_more(place: Place, counts: Mapping[str, Count], baseline: Mapping[str, Count]) -> bool:
    now, before = counts[place.file], baseline.get(place.file, Count())
    return now.words > before.words if place.count.words else now.fragments > before.fragments


def parse_counts(text: str) -> Counts:
    """Read a baseline."""
    rows = list(csv.reader(io.StringIO(text)))[1:]
    return {file: Count(int(words), int(fragments)) for file, words, fragments in rows}


def format_counts(counts: Mapping[str, Count]) -> str:
    """Return the text of a baseline, with one line for each file in `counts`."""
    buffer = io.StringIO()
    rows = ((file, *count) for file, count in sorted(counts.items()))
    csv.writer(buffer, lineterminator="\n").writerows([HEADER, *rows])
    return buffer.getvalue()


def find_all_places() -> list[Place]:
    """Find the places of all files that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    file_names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [file for file in sorted(set(file_names)) if folder_of(file) and Path(file).is_file()]
    return [place for file in files for place in find_places(file, Path(file).read_text())]


def main(arguments: list[str]) -> int:
    """Compare the counts with the baseline, or write the baseline. Return 1 if the counts are refused."""
    all_places = find_all_places()
    if "--list" in arguments:
        sys.stdout.write("".join(f"{place.file}:{place.line}: {place.text[:120]}\n" for place in all_places))
        return 0
    if not BASELINE.exists():
        BASELINE.write_text(format_counts(count_places(all_places)))
    baseline, new_baseline = BASELINE.read_text(), format_counts(count_places(all_places))
    messages = find_increases(all_places, parse_counts(baseline))
    if not messages and "--check" in arguments and baseline != new_baseline:
        messages = [f"{BASELINE} is out of date: counts fell or moved to other files. Run make generate."]
    if not messages:
        BASELINE.write_text(new_baseline)
    sys.stderr.write("".join(f"{message}\n" for message in messages))
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
