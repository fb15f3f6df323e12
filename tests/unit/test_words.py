"""The count of odd words may only decrease."""

import pytest

from scripts.words import Count, count_places, find_increases, find_places, folder_of, format_counts, parse_counts

ODD = '''"""Of a thing that nobody needs."""

X = 1  # told twice: told


def names() -> None:
    """Return the names."""
'''


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("README.md", "docs"),
        ("operator/README.md", "docs"),
        ("operator/gaudi_operator/decide.py", "operator"),
        ("charts/gaudi-operator/values.yaml", "charts"),
        ("tests/data/log_000.txt", None),
        ("requirements/dev.txt", None),
        ("runtime/gaudi_runtime/knobs/table.csv", None),
    ],
)
def test_file_belongs_to_its_top_folder(file: str, folder: str | None) -> None:
    assert folder_of(file) == folder


def test_odd_words_and_fragments_are_found_with_line_numbers() -> None:
    found = [(each.line, each.count) for each in find_places("operator/a.py", ODD)]
    assert found == [(1, Count(words=1)), (3, Count(words=2)), (1, Count(fragments=1))]


def test_only_docstrings_of_code_are_counted_as_fragments() -> None:
    assert list(find_places("README.md", "As a user, read this.\nNone of it is hard.")) == []


def test_whole_words_are_counted_case_insensitively() -> None:
    assert count_places(find_places("README.md", "Besides, a foretold Beside.")) == {"README.md": Count(words=1)}


def test_baseline_reads_back_as_written() -> None:
    counts = {"operator/a.py": Count(3, 1), "README.md": Count(0, 2)}
    assert parse_counts(format_counts(counts)) == counts


def test_counts_up_to_the_baseline_are_accepted() -> None:
    found = list(find_places("operator/a.py", ODD))
    assert find_increases(found, count_places(found)) == []
    assert find_increases(found, {"operator/a.py": Count(5, 1)}) == []


@pytest.mark.parametrize("baseline", [Count(2, 1), Count(3, 0)])
def test_counts_above_the_baseline_are_reported_with_each_line(baseline: Count) -> None:
    folder, *lines = find_increases(find_places("operator/a.py", ODD), {"operator/a.py": baseline})
    assert folder.startswith("operator: 3 words and 1 fragments of docstrings; scripts/words.csv allows ")
    first, _, third, *_ = ODD.splitlines()
    words = [f"operator/a.py:1: {first}", f"operator/a.py:3: {third}"]
    docstring = first.strip('"')
    assert lines == (words if baseline.words == 2 else [f"operator/a.py:1: {docstring}"])


def test_text_may_be_moved_between_files_of_a_folder() -> None:
    assert find_increases(find_places("operator/new/b.py", ODD), {"operator/a.py": Count(3, 1)}) == []


def test_text_moved_to_another_folder_is_reported() -> None:
    assert find_increases(find_places("runtime/b.py", ODD), {"operator/a.py": Count(3, 1)})
