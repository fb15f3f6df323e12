"""Odd words and fragments of docstrings are found."""

import pytest

from scripts.words import find_places, is_checked

ODD = '''"""Of a thing that nobody needs."""

X = 1  # told twice: told


def names() -> None:
    """Return the names."""
'''


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("README.md", True),
        ("operator/README.md", True),
        ("operator/gaudi_operator/decide.py", True),
        ("charts/gaudi-operator/values.yaml", True),
        ("tests/data/log_000.txt", False),
        ("requirements/dev.txt", False),
        ("runtime/gaudi_runtime/knobs/table.csv", False),
    ],
)
def test_text_and_code_of_this_project_are_checked(file: str, expected: bool) -> None:
    assert is_checked(file) is expected


def test_odd_words_and_fragments_are_found_with_line_numbers() -> None:
    assert list(find_places("operator/a.py", ODD)) == [
        'operator/a.py:1: """Of a thing that nobody needs."""',
        "operator/a.py:3: X = 1  # told twice: told",
        "operator/a.py:1: Of a thing that nobody needs.",
    ]


def test_only_docstrings_of_code_are_fragments() -> None:
    assert list(find_places("README.md", "As a user, read this.\nNone of it is hard.")) == []


def test_only_whole_words_are_found() -> None:
    assert list(find_places("README.md", "Besides, a foretold event.")) == []
    assert list(find_places("README.md", "It stands Beside it."))
