"""The code skeletons of docs/contributing run in the modules that they name."""

import csv
import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.knobs import table
from tests.support.policies import EXPONENTIAL
from tests.unit.operator.core.resources import DEFAULTS, inference

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "contributing"
PAGES = sorted(FOLDER.glob("add-a-*.md"))


def skeletons(page: Path) -> list[str]:
    fences = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [dedent(code) for _, code in fences]


def run(page: str) -> dict[str, Any]:
    """Run all skeletons of a page, each among the names of its module, and return what they define."""
    defined: dict[str, Any] = {}
    for code in skeletons(FOLDER / page):
        path = code.splitlines()[0].removeprefix("# ")
        assert (ROOT / path).is_file()
        names = dict(vars(import_module(path.split("/", 1)[1].removesuffix(".py").replace("/", "."))))
        before = set(names)
        exec(compile(code, path, "exec", dont_inherit=True), names)  # noqa: S102 - our own page
        defined |= {name: names[name] for name in names.keys() - before}
    return defined


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_a_skeleton_that_runs(page: Path) -> None:
    assert run(page.name)


def test_strategy_skeleton_returns_doubling_ranges_and_values() -> None:
    found = run("add-a-strategy.md")
    limits = Limits(max_model_len=1024, max_num_seqs=8, max_num_batched_tokens=1000)
    ranges = found["doubling_ranges"](EXPONENTIAL, limits, 64)
    query, batch = ranges.prompt_query, ranges.decode_batch
    assert found["doubling_values"](query.min, query.step, query.max) == [128, 256, 512, 1000]
    assert found["doubling_values"](batch.min, batch.step, batch.max) == [1, 2, 4, 8]
    assert found["doubling_values"](0, 1, 3) == [0, 1, 2, 3]
    assert len(found["doubling_values"](1, 1, 16_000_000)) == 25


@pytest.mark.parametrize(("tokens", "reason"), [(512, None), (513, "StepNeverFull")])
def test_check_skeleton_refuses_above_its_bound(tokens: int, reason: str | None) -> None:
    check = run("add-a-check.md")["check_step_tokens"]
    spec = inference(model={"maxModelLen": 256}, engine={"maxNumSeqs": 2, "maxNumBatchedTokens": tokens})
    problem = check(spec, DEFAULTS)
    assert (problem.reason if problem else None) == reason


def test_documented_knob_row_is_parsed() -> None:
    (row,) = re.findall(r"```csv\n(.*)\n```", (FOLDER / "add-a-knob.md").read_text())
    head = (ROOT / "runtime/gaudi_runtime/knobs/table.csv").read_text().splitlines()[0]
    (values,) = csv.DictReader([head, row])
    assert table._parse_row(values).bounds == (1, 64)
