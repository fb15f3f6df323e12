"""docs/how-to/plan-buckets.md, How many graphs: the page shows what the commands print."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from gaudi_runtime.catalog.cards import GAUDI2_RATES

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs" / "how-to" / "plan-buckets.md").read_text().partition("\n## How many graphs")[2]
WHY = (ROOT / "docs" / "start" / "why.md").read_text()
EXAMPLE = ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml"
ROW = re.compile(r"│ (\w+(?:, \w+)?) +│ +(\d+) \+ (\d+) │ +([\d.]+) │ +([\d.]+) │")


@pytest.fixture(scope="module")
def table() -> str:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, ["forecast", "-f", str(EXAMPLE), "--strategies"]).stdout


def test_page_shows_the_table_of_the_example(table: str) -> None:
    shown = PAGE.partition("```console\n")[2].partition("```")[0]
    command, _, printed = shown.partition("\n")
    assert command == "$ gaudi-plan forecast -f examples/vllm/llama-3.1-8b.yaml --strategies"
    assert printed.removeprefix("...\n").removesuffix("...\n") in table


def test_choices_on_the_page_have_the_values_of_the_table(table: str) -> None:
    rows = {name: (int(prompt), int(decode), *paddings) for name, prompt, decode, *paddings in ROW.findall(table)}
    choices = PAGE.partition("### Choose")[2]
    for name in ("Optimal", "Optimal, half", "Optimal, twice"):
        prompt, decode, *paddings = rows[name]
        assert f"{prompt + decode} graphs, padding {' and '.join(map(str, paddings))} |" in choices
    prompt, decode, *_ = rows["Optimal, half"]
    assert f"promptGraphs: {prompt}\n    decodeGraphs: {decode}\n" in choices


@pytest.mark.parametrize(
    ("strategy", "seconds", "minutes"),
    [
        ("Exponential", "91 s to 5.8 min", "1.5 to 5.8 minutes for the 138 graphs"),
        ("Optimal", "41 s to 2.4 min", "0.7 to 2.4 minutes for the 59"),
    ],
)
def test_warm_up_times_on_the_pages_equal_the_forecast(
    strategy: str, seconds: str, minutes: str, tmp_path: Path
) -> None:
    assert seconds in " ".join(PAGE.split())
    assert minutes in " ".join(WHY.split())
    manifest = tmp_path / "asked.yaml"
    manifest.write_text(f"{EXAMPLE.read_text()}  bucketing: {{strategy: {strategy}}}\n")
    rows = CliRunner().invoke(app, ["forecast", "-f", str(manifest), "-o", "csv"]).stdout.splitlines()
    (values,) = (row.split(",")[2:5] for row in rows if row.startswith("warm-up,"))
    least, most = float(values[1]), float(values[2])
    assert seconds == f"{least:.0f} s to {f'{most:.0f} s' if most < 120 else f'{most / 60:.1f} min'}"
    assert minutes.startswith(f"{least / 60:.1f} to {most / 60:.1f} minutes")


def test_page_shows_the_rates_of_a_graph() -> None:
    costs = PAGE.partition("### What a graph costs")[2]
    rates = GAUDI2_RATES
    prompt, decode = (
        (rates.prompt_compile_seconds, rates.prompt_capture_seconds),
        (rates.decode_compile_seconds, rates.decode_capture_seconds),
    )
    for title, of in (("fastest", "value"), ("slowest", "high")):
        cells = [f"{sum(getattr(each, of) for each in phase):.1f} s" for phase in (prompt, decode)]
        assert f"| warm-up, {title} logged release | {' | '.join(cells)} |" in costs
    amounts = (rates.prompt_graph_bytes_per_token.value, rates.decode_graph_bytes_per_sequence.value)
    assert [f"{each / 2**20:.1f}" for each in amounts] == re.findall(r"([\d.]+) MiB for each", costs)
