"""The walk of the architecture page names existing functions."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"o": ROOT / "operator" / "gaudi_operator", "r": ROOT / "runtime" / "gaudi_runtime"}
PAGE = (ROOT / "docs" / "internals" / "architecture.md").read_text().partition("## A walk")[2]
STEP = re.compile(r"`(o|r)/([\w/]+\.py):([\w.]+)`")


@pytest.mark.parametrize(("side", "file", "name"), sorted(set(STEP.findall(PAGE))))
def test_step_names_a_definition_that_exists_in_its_file(side: str, file: str, name: str) -> None:
    found: list[ast.stmt] = [ast.parse((FOLDERS[side] / file).read_text())]  # type: ignore[list-item]
    *outer, last = name.split(".")
    for part in outer:
        found = [each for at in found for each in ast.walk(at) if isinstance(each, ast.ClassDef) and each.name == part]
    assert last in {getattr(each, "name", None) for at in found for each in ast.walk(at)}
