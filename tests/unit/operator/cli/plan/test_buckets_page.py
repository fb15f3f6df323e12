"""docs/how-to/plan-buckets.md and docs/internals/planning.md: their commands print what the pages show."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app

DOCS = Path(__file__).parents[5] / "docs"
PAGE = "\n".join((DOCS / page).read_text() for page in ("how-to/plan-buckets.md", "internals/planning.md"))
FILES = re.findall(r"^`([\w.-]+)`[^\n]*:\n```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CONSOLES = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CALLS = (each for console in CONSOLES for each in re.split(r"^\$ ", console, flags=re.MULTILINE))
COMMANDS = [call for call in CALLS if call.startswith("gaudi-plan find ")]


@pytest.fixture
def page_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.usefixtures("page_files")
@pytest.mark.parametrize("example", COMMANDS, ids=lambda example: example.split("\n")[0])
def test_command_on_the_page_prints_the_output_on_the_page(example: str) -> None:
    command, *shown = example.rstrip("\n").split("\n")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.stderr
    # Three dots on the page stand for any number of omitted lines.
    parts = "\n".join(shown).split("...")
    assert re.search(".*".join(map(re.escape, parts)), result.stdout, re.DOTALL)


def test_pages_have_the_expected_number_of_examples() -> None:
    assert len(FILES) == 2
    assert len(COMMANDS) == 4


@pytest.mark.usefixtures("page_files")
@pytest.mark.parametrize(
    ("name", "counts"),
    [("linear.json", (24, 48))],
)
def test_plan_of_an_example_file_has_the_expected_bucket_counts(name: str, counts: tuple[int, int]) -> None:
    lines = CliRunner().invoke(app, ["buckets", "-f", name, "-o", "csv"]).stdout.splitlines()[1:]
    assert tuple(sum(line.startswith(phase) for line in lines) for phase in ("prompt", "decode")) == counts
