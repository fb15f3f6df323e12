"""The checks of scripts/house.py refuse violations of the house rules."""

import ast
from pathlib import Path

from scripts.house import MOST_LINES, WAITS, check_waits, find_waits, long_files, long_names

FILE = Path("tests/unit/test_any.py")


def test_file_above_the_limit_is_refused() -> None:
    (message,) = long_files({Path("a.py"): MOST_LINES, Path("b.py"): MOST_LINES + 1})
    assert message.startswith("b.py:401: the file has 401 lines, more than 400. ")


def test_long_name_of_a_test_is_refused() -> None:
    ten, eleven = (f"test_{'_'.join(['word'] * count)}" for count in (10, 11))
    (message,) = long_names(FILE, ast.parse(f"def {ten}(): ...\nasync def {eleven}(): ..."))
    assert message == f"{FILE}: {eleven} has 11 words. State case and outcome in 10"


def test_version_number_in_a_test_name_is_one_word() -> None:
    name = f"test_{'_'.join(['word'] * 9)}_3_1_8"
    assert long_names(FILE, ast.parse(f"def {name}(): ...")) == []


def test_sleep_and_changed_constant_are_refused() -> None:
    text = 'time.sleep(1)\nmonkeypatch.setattr(module, "LIMIT", 1)\nmonkeypatch.setattr("module.LIMIT", 1)'
    assert [said.split(":")[1] for said in find_waits(FILE, ast.parse(text))] == ["1", "2", "3"]


def test_sleep_of_zero_and_changed_method_are_accepted() -> None:
    assert find_waits(FILE, ast.parse('asyncio.sleep(0)\nmonkeypatch.setattr(thing, "method", 1)')) == []


def test_unused_exception_in_waits_is_reported() -> None:
    every = {name: ["it sleeps"] for name in WAITS}
    assert check_waits(every) == []
    first = next(iter(WAITS))
    assert check_waits({**every, first: [], "other.py": ["it sleeps"]}) == [
        "it sleeps",
        f"{first} waits on nothing: delete its entry in WAITS",
    ]
