"""The walks of the architecture page name existing functions and have correct counts of steps and files."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"o": ROOT / "operator" / "gaudi_operator", "r": ROOT / "runtime" / "gaudi_runtime"}
PAGE = (ROOT / "docs" / "internals" / "architecture.md").read_text().partition("## Two walks")[2]
STEP = re.compile(r"^\d+\. `(o|r)/([\w/]+\.py):([\w.]+)`", re.MULTILINE)
WALKS = dict(part.split("\n", 1) for part in PAGE.split("\n### ")[1:])


@pytest.mark.parametrize(("side", "file", "name"), sorted(set(STEP.findall(PAGE))))
def test_step_names_a_definition_that_exists_in_its_file(side: str, file: str, name: str) -> None:
    found: list[ast.stmt] = [ast.parse((FOLDERS[side] / file).read_text())]  # type: ignore[list-item]
    *outer, last = name.split(".")
    for part in outer:
        found = [each for at in found for each in ast.walk(at) if isinstance(each, ast.ClassDef) and each.name == part]
    assert last in {getattr(each, "name", None) for at in found for each in ast.walk(at)}


@pytest.mark.parametrize("walk", WALKS)
def test_walk_states_the_correct_number_of_steps_and_files(walk: str) -> None:
    steps, files = re.search(r"(\d+) steps in (\d+) files", WALKS[walk]).groups()  # type: ignore[union-attr]
    found = STEP.findall(WALKS[walk])
    assert (int(steps), int(files)) == (len(found), len({(side, file) for side, file, _ in found}))
