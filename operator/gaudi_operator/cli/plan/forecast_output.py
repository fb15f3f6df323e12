"""The output of a forecast as JSON, CSV or text: verdict and remedy first, then the figures.

Notes, requested sources, and the engine's command line follow the figures.
"""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from gaudi_operator.cli.plan.output import CommandOutput, output_console, output_table
from gaudi_operator.cli.plan.verdict import ForecastWithVerdict
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.catalog.release_pairs import PAIRS, RELEASES
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.forecast.result import PhaseForecast
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.planning.coverage import PhaseCoverage
from gaudi_runtime.units import plural

if TYPE_CHECKING:
    from rich.console import Console

    from gaudi_operator.cli.plan.comparison import Comparison

GIB, MIB = 2**30, 2**20
FIGURE_COLUMNS = ("figure", "unit", "value", "low", "high", "confidence", "source")


def forecast_output(
    deployment: ForecastWithVerdict,
    *,
    sources: bool = False,
    comparison: "Comparison | None" = None,
    picture: Callable[[], str] | None = None,
) -> CommandOutput:
    """Return the output of `gaudi-plan forecast`.

    If `sources` is True, the table shows the source of each figure. `comparison` is the table of strategies, and
    `picture` draws the strategies as SVG.
    """
    return CommandOutput(
        data={**_json_data(deployment), "strategies": comparison.data() if comparison else None},
        rows=lambda: _csv_rows(deployment),
        show=lambda: _print_forecast(deployment, sources, comparison),
        picture=picture,
    )


def _json_data(deployment: ForecastWithVerdict) -> dict[str, Any]:
    forecast = deployment.forecast
    options = render_engine_options(deployment.config)
    return {
        "card": forecast.card,
        "model": forecast.model,
        "verdict": deployment.verdict,
        "why": deployment.reasons,
        "remedies": deployment.remedies,
        "memory": {to_camel(name): _figure_data(figure) for name, figure in vars(forecast.memory).items()}
        if forecast.memory
        else None,
        "kvBlocks": _figure_data(forecast.kv_blocks),
        **{phase.value: _phase_data(getattr(forecast, phase.value)) for phase in BucketPhase},
        "warmupSeconds": _figure_data(forecast.warmup_seconds),
        "measured": deployment.measured_plan.model_dump(mode="json", by_alias=True, exclude_none=True)
        if deployment.measured_plan
        else None,
        "problems": [{"reason": problem.reason, "message": problem.message} for problem in deployment.problems],
        "notes": forecast.notes,
        "coverage": _coverage(deployment),
        "padding": _padding(deployment),
        "startedWith": {"environment": options.env, "arguments": options.args},
        "pairs": [{**asdict(pair), "image": pair.image} for pair in PAIRS]
        if _requires_release_pair(deployment.config)
        else None,
        "warnings": deployment.warnings,
    }


def _coverage(deployment: ForecastWithVerdict) -> dict[str, Any] | None:
    if deployment.plan_figures is None:
        return None
    coverage = deployment.plan_figures.plan_coverage
    return {phase.phase.value: _coverage_counts(phase) for phase in (coverage.prompt, coverage.decode)}


def _padding(deployment: ForecastWithVerdict) -> dict[str, Any] | None:
    """Return the padding (padded / real compute) of each phase."""
    figures = deployment.plan_figures
    return {phase.value: score.padding for phase, score in figures.scores.items()} if figures else None


def _coverage_counts(phase_coverage: PhaseCoverage) -> dict[str, int]:
    return {"shapes": phase_coverage.shapes, "withoutBucket": phase_coverage.missing, "gaps": phase_coverage.gap_count}


def _phase_data(phase_forecast: PhaseForecast | None) -> dict[str, Any] | None:
    if phase_forecast is None:
        return None
    return {
        "planned": phase_forecast.planned,
        "captured": None if phase_forecast.captured_buckets is None else len(phase_forecast.captured_buckets),
        "capturedAtBest": phase_forecast.captured_at_best,
        "percent": phase_forecast.captured_percent,
        "buckets": phase_forecast.captured_buckets,
        "graphBytes": _figure_data(phase_forecast.graph_bytes),
        "allGraphBytes": _figure_data(phase_forecast.all_graph_bytes),
        "compileSeconds": _figure_data(phase_forecast.compile_seconds),
        "captureSeconds": _figure_data(phase_forecast.capture_seconds),
    }


def _figure_data(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    bounds = {name: value for name, value in (("low", figure.low), ("high", figure.high)) if value is not None}
    return {"value": figure.value, **bounds, "confidence": figure.confidence, "source": figure.source}


def _csv_rows(deployment: ForecastWithVerdict) -> Iterator[tuple[object, ...]]:
    yield FIGURE_COLUMNS
    for name, unit, figure in deployment.figures():
        yield name, unit, figure.value, figure.low, figure.high, figure.confidence.value, figure.source
    if plan := deployment.measured_plan:
        label, source = plan.basis.value.lower(), plan.source or ""
        yield from (
            (name, unit, value, value, value, label, source) for name, unit, value in deployment.measured_figures()
        )


def _print_forecast(deployment: ForecastWithVerdict, sources: bool, comparison: "Comparison | None") -> None:
    console, forecast = output_console(), deployment.forecast

    def print_line(text: str, style: str | None = None) -> None:
        console.print(text, style=style, markup=False, highlight=False)

    unnamed = "simulated model" if deployment.config.engine.name is EngineName.SIM else "unknown model"
    model, verdict = forecast.model or unnamed, deployment.verdict
    print_line(f"{verdict}: {model} on card {forecast.card} (an estimate)", _STYLES[verdict.exit_code])
    for reason in deployment.reasons:
        print_line(f"why: {reason}")
    for number, remedy in enumerate(deployment.remedies):
        print_line(f"{'or' if number else 'remedy'}: {remedy}", "green")
    for warning in deployment.warnings:
        print_line(f"warning: {warning}", "yellow")
    cited_sources = _print_figures(console, deployment, sources)
    if plan := deployment.measured_plan:
        figures = ", ".join(
            f"{name} {_format_amount(value, unit)}" for name, unit, value in deployment.measured_figures()
        )
        print_line(f"{plan.basis.value.lower()} with this spec by {make_one_line(plan.source or 'a pod')}: {figures}")
    for phase in (forecast.prompt, forecast.decode):
        if phase:
            print_line(_graphs_sentence(phase, captures=forecast.captures_graphs))
    if padding := _padding_sentence(deployment):
        print_line(padding)
    if comparison:
        console.print(comparison.table())
        for name, reason in comparison.refusals.items():
            print_line(f"{name}: {reason}")
    for number, source in enumerate(cited_sources, start=1):
        print_line(f"[{number}] {source}")
    for note in forecast.notes:
        print_line(note)
    for line in _launch_lines(deployment.config):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


_STYLES = {0: "bold green", 3: "bold red", 4: "bold red", 5: "bold yellow"}
"""The style of the first line by exit code."""


def _print_figures(console: "Console", deployment: ForecastWithVerdict, sources: bool) -> list[str]:
    """Print the table of figures. Returns the sources in the order of their numbers; empty unless `sources` is True."""
    figures = list(deployment.figures())
    cited_sources = list(dict.fromkeys(figure.source for _, _, figure in figures)) if sources else []
    rows = (
        (
            name,
            _format_amount(figure.value, unit),
            _format_range(figure, unit),
            figure.confidence,
            *([f"\\[{cited_sources.index(figure.source) + 1}]"] if sources else []),
        )
        for name, unit, figure in figures
    )
    columns = ("figure", "estimate", "other sources", "sure", *(["source"] if sources else []))
    console.print(output_table(rows, columns))
    return cited_sources


def _format_range(figure: Figure, unit: str) -> str:
    if figure.least == figure.most:
        return ""
    return f"{_format_amount(figure.least, unit)} to {_format_amount(figure.most, unit)}"


def _format_amount(value: float, unit: str) -> str:
    """Format a figure of a forecast with its unit: bytes in GiB or MiB, long times in minutes."""
    if unit == "blocks":
        return f"{int(value):,}"
    if unit == "seconds":
        return f"{value:.0f} s" if value < 120 else f"{value / 60:.1f} min"
    return f"{value / GIB:.2f} GiB" if value >= GIB else f"{value / MIB:.1f} MiB"


def _graphs_sentence(phase: PhaseForecast, *, captures: bool) -> str:
    if phase.captured_buckets is None:
        unknown_note = "; the first pod measures how many graphs fit, and none is needed to serve" if captures else ""
        return f"{phase.phase}: {plural(phase.planned, 'bucket')}{unknown_note}"
    captured_count, best_count = len(phase.captured_buckets), phase.captured_at_best
    suffix = f", {best_count} by the most optimistic source" if best_count not in (None, captured_count) else ""
    return f"{phase.phase}: {captured_count} of {phase.planned} graphs captured ({phase.captured_percent} %){suffix}"


def _padding_sentence(deployment: ForecastWithVerdict) -> str | None:
    """Return a sentence about the padding of the plan; None if the padding is unknown."""
    scores = deployment.plan_figures.scores if deployment.plan_figures else {}
    paddings = [f"{phase} {score.padding:.3f}" for phase, score in scores.items() if score.padding is not None]
    if not paddings:
        return None
    return f"padding: {', '.join(paddings)} (1.0 is none); --strategies shows other strategies and fewer graphs"


def _launch_lines(config: RuntimeConfig) -> Iterator[str]:
    """Yield the lines of the engine's shell command; nothing if the engine has no command. Raises ConfigError."""
    if _requires_release_pair(config):
        yield f"for {RELEASES}"
    parts = [f"{name}={shlex.quote(value)}" for name, value in render_engine_options(config).env.items()] + [
        *_vllm_command_lines(config)
    ]
    if parts:
        yield "started with:"
        yield " \\\n".join(f"  {part}" for part in parts)


def _requires_release_pair(config: RuntimeConfig) -> bool:
    """Return True if vLLM serves on a card, which requires a matching pair of vLLM and plugin."""
    return config.engine.name is EngineName.VLLM and config.engine.device == "hpu"


def _vllm_command_lines(config: RuntimeConfig) -> Iterator[str]:
    """Yield the lines of a `vllm serve` command that has the same effect as the runtime's settings."""
    if config.engine.name is not EngineName.VLLM:
        return
    yield "vllm serve"
    words: list[str] = []
    for word in render_engine_options(config).args:
        if word.startswith("--") and words:
            yield shlex.join(words)
            words = []
        words.append(word)
    yield shlex.join(words)
