"""docs/how-to/forecast.md reads what the command prints."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs" / "how-to" / "forecast.md").read_text()
EXAMPLE = ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml"


def printed(manifest: Path) -> str:
    return CliRunner().invoke(app, ["forecast", "-f", str(manifest)]).stdout


def test_page_shows_the_forecast_of_the_example() -> None:
    shown = PAGE.partition("```console\n")[2].partition("\n...\n```")[0]
    command, _, table = shown.partition("\n")
    assert command == "$ gaudi-plan forecast -f examples/vllm/llama-3.1-8b.yaml"
    assert printed(EXAMPLE).startswith(table)


@pytest.mark.parametrize(
    "figure", ["4,774", "126.50 GiB", "14.96 GiB", "38.79 GiB", "24.87 GiB", "5.71 GiB", "58.3 MiB"]
)
def test_figure_of_the_text_is_one_of_the_table(figure: str) -> None:
    assert figure in PAGE.partition("## Read it")[2]
    assert figure in printed(EXAMPLE)


def test_page_shows_the_advice_for_a_higher_threshold(tmp_path: Path) -> None:
    manifest = tmp_path / "all.yaml"
    manifest.write_text(EXAMPLE.read_text().replace("minCapturedPromptPercent: 80", "minCapturedPromptPercent: 100"))
    (advice,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert " ".join(advice.split()) in " ".join(printed(manifest).split())
