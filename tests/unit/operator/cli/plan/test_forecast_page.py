"""docs/how-to/plan-buckets.md, Forecast: the page shows the output of the command."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from gaudi_operator.cli.plan.verdict import Verdict

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs" / "how-to" / "plan-buckets.md").read_text().partition("\n## How many graphs")[0]
EXAMPLE = ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml"


def printed(manifest: Path) -> str:
    return CliRunner().invoke(app, ["forecast", "-f", str(manifest)]).stdout


def test_page_shows_the_forecast_of_the_example() -> None:
    """The page shows parts of the output. Three dots stand for omitted lines."""
    shown = PAGE.partition("```console\n")[2].partition("\n...\n```")[0]
    command, _, parts = shown.partition("\n")
    assert command == "$ gaudi-plan forecast -f examples/vllm/llama-3.1-8b.yaml"
    verdict, figures = parts.split("\n...\n")
    assert printed(EXAMPLE).startswith(verdict)
    assert figures in printed(EXAMPLE)


@pytest.mark.parametrize("figure", ["4,774", "126.50 GiB", "14.96 GiB", "24.87 GiB", "41 s", "2.4 min"])
def test_value_in_the_text_is_in_the_printed_table(figure: str) -> None:
    assert figure in PAGE.partition("### The figures")[2]
    assert figure in printed(EXAMPLE)


def test_page_lists_every_verdict_with_its_exit_code() -> None:
    rows = dict(re.findall(r"^\| `([A-Z ]+)` \| (\d) \|", PAGE, re.MULTILINE))
    assert rows == {verdict.value: str(verdict.exit_code) for verdict in Verdict}
