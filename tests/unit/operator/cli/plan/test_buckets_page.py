"""docs/internals/planning.md: its commands print what the page shows."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app

PAGE = (Path(__file__).parents[5] / "docs" / "internals" / "planning.md").read_text()
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


def test_page_has_the_expected_number_of_examples() -> None:
    assert len(FILES) == 1
    assert len(COMMANDS) == 1
