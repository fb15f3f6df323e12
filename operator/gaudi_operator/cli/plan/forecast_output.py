"""The output of a forecast as JSON, CSV or text: verdict and remedy first, then the figures.

Notes, requested sources, and the engine's command line follow the figures.
"""

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from gaudi_operator.cli.plan.faults import SpecRefused
from gaudi_operator.cli.plan.output import CommandOutput, build_table, stdout_console
from gaudi_operator.cli.plan.verdict import DeploymentForecast, Verdict, to_sentence
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

GIB, MIB = 2**30, 2**20
FIGURE_COLUMNS = ("figure", "unit", "value", "low", "high", "confidence", "source")


def forecast_output(foreseen: DeploymentForecast, *, sources: bool = False) -> CommandOutput:
    """Return the output of `gaudi-plan forecast`. If `sources` is True, the table shows the source of each figure."""
    return CommandOutput(
        data=_json_data(foreseen), rows=lambda: _csv_rows(foreseen), show=lambda: _print_forecast(foreseen, sources)
    )


def refusal_output(refused: SpecRefused) -> CommandOutput:
    """Return the output of `gaudi-plan forecast` for a document that the API server refuses.

    The output contains no forecast.
    """
    why = tuple(to_sentence(each) for each in refused.sentences)
    problems = [{"reason": "SchemaViolated", "message": each} for each in why]
    first = f"{Verdict.REFUSED}: the API server refuses {refused.document}"

    def show() -> None:
        console = stdout_console()
        console.print(first, style=_STYLES[Verdict.REFUSED.exit_code], markup=False, highlight=False)
        for each in why:
            console.print(f"why: {each}", markup=False, highlight=False)

    return CommandOutput(
        data={"verdict": Verdict.REFUSED, "why": why, "remedies": (), "problems": problems},
        rows=lambda: [FIGURE_COLUMNS],
        show=show,
    )


def _json_data(foreseen: DeploymentForecast) -> dict[str, Any]:
    found = foreseen.forecast
    started = render_engine_options(foreseen.config) if foreseen.config else None
    return {
        "card": found.card,
        "model": found.model,
        "verdict": foreseen.verdict,
        "why": foreseen.reasons,
        "remedies": foreseen.remedies,
        "memory": {to_camel(name): _figure_data(each) for name, each in vars(found.memory).items()}
        if found.memory
        else None,
        "kvBlocks": _figure_data(found.kv_blocks),
        **{phase.value: _phase_data(getattr(found, phase.value)) for phase in BucketPhase},
        "warmupSeconds": _figure_data(found.warmup_seconds),
        "measured": foreseen.measured.model_dump(mode="json", by_alias=True, exclude_none=True)
        if foreseen.measured
        else None,
        "problems": [{"reason": each.reason, "message": each.message} for each in foreseen.problems],
        "notes": found.notes,
        "coverage": _coverage(foreseen),
        "padding": _padding(foreseen),
        "startedWith": {"environment": started.env, "arguments": started.args} if started else None,
        "pairs": [{**asdict(each), "image": each.image} for each in PAIRS]
        if _requires_release_pair(foreseen.config)
        else None,
        "warnings": foreseen.warnings,
    }


def _coverage(foreseen: DeploymentForecast) -> dict[str, Any] | None:
    if foreseen.plan_figures is None:
        return None
    found = foreseen.plan_figures.uncovered
    return {phase.phase.value: _coverage_counts(phase) for phase in (found.prompt, found.decode)}


def _padding(foreseen: DeploymentForecast) -> dict[str, Any] | None:
    """Return the padding (padded / real compute) of each phase, and the increase without the last ten graphs."""
    found = foreseen.plan_figures
    if found is None:
        return None
    phases = {phase.value: each.padding for phase, each in found.scores.items()}
    return {**phases, "moreWithoutLastTen": found.last_graphs}


def _coverage_counts(phase: PhaseCoverage) -> dict[str, int]:
    return {"shapes": phase.shapes, "withoutBucket": phase.missing, "gaps": phase.gap_count}


def _phase_data(phase: PhaseForecast | None) -> dict[str, Any] | None:
    if phase is None:
        return None
    return {
        "planned": phase.planned,
        "captured": None if phase.captured is None else len(phase.captured),
        "capturedAtBest": phase.captured_at_best,
        "percent": phase.captured_percent,
        "buckets": phase.captured,
        "graphBytes": _figure_data(phase.graph_bytes),
        "allGraphBytes": _figure_data(phase.all_graph_bytes),
        "compileSeconds": _figure_data(phase.compile_seconds),
        "captureSeconds": _figure_data(phase.capture_seconds),
    }


def _figure_data(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    bounds = {name: value for name, value in (("low", figure.low), ("high", figure.high)) if value is not None}
    return {"value": figure.value, **bounds, "confidence": figure.confidence, "source": figure.source}


def _csv_rows(foreseen: DeploymentForecast) -> Iterator[tuple[object, ...]]:
    yield FIGURE_COLUMNS
    for name, unit, figure in foreseen.figures():
        yield name, unit, figure.value, figure.low, figure.high, figure.confidence.value, figure.source
    if plan := foreseen.measured:
        label, source = plan.basis.value.lower(), plan.source or ""
        yield from (
            (name, unit, value, value, value, label, source) for name, unit, value in foreseen.measured_figures()
        )


def _print_forecast(foreseen: DeploymentForecast, sources: bool) -> None:
    console, found = stdout_console(), foreseen.forecast

    def print_line(text: str, style: str | None = None) -> None:
        console.print(text, style=style, markup=False, highlight=False)

    model = found.model or "unknown model"
    print_line(f"{foreseen.verdict}: {model} on card {found.card} (an estimate)", _STYLES[foreseen.verdict.exit_code])
    for reason in foreseen.reasons:
        print_line(f"why: {reason}")
    for number, remedy in enumerate(foreseen.remedies):
        print_line(f"{'or' if number else 'remedy'}: {remedy}", "green")
    for warning in foreseen.warnings:
        print_line(f"warning: {warning}", "yellow")
    cited = _print_figures(console, foreseen, sources)
    if plan := foreseen.measured:
        figures = ", ".join(f"{name} {format_amount(value, unit)}" for name, unit, value in foreseen.measured_figures())
        print_line(f"{plan.basis.value.lower()} with this spec by {make_one_line(plan.source or 'a pod')}: {figures}")
    for phase in (found.prompt, found.decode):
        if phase:
            print_line(_graphs_sentence(phase, captures=found.captures))
    if padding := _padding_sentence(foreseen):
        print_line(padding)
    for number, source in enumerate(cited, start=1):
        print_line(f"[{number}] {source}")
    for note in found.notes:
        print_line(note)
    for line in _launch_lines(foreseen.config):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


_STYLES = {0: "bold green", 3: "bold red", 4: "bold red", 5: "bold yellow"}
"""The style of the first line by exit code."""


def _print_figures(console: "Console", foreseen: DeploymentForecast, sources: bool) -> list[str]:
    """Print the table of figures. Returns the sources in the order of their numbers; empty unless `sources` is True."""
    figures = list(foreseen.figures())
    cited = list(dict.fromkeys(figure.source for _, _, figure in figures)) if sources else []
    rows = (
        (
            name,
            format_amount(figure.value, unit),
            _format_range(figure, unit),
            figure.confidence,
            *([f"\\[{cited.index(figure.source) + 1}]"] if sources else []),
        )
        for name, unit, figure in figures
    )
    columns = ("figure", "estimate", "other sources", "sure", *(["source"] if sources else []))
    console.print(build_table(rows, columns))
    return cited


def _format_range(figure: Figure, unit: str) -> str:
    if figure.least == figure.most:
        return ""
    return f"{format_amount(figure.least, unit)} to {format_amount(figure.most, unit)}"


def format_amount(value: float, unit: str) -> str:
    """Format a figure of a forecast with its unit: bytes in GiB or MiB, long times in minutes."""
    if unit == "blocks":
        return f"{int(value):,}"
    if unit == "seconds":
        return f"{value:.0f} s" if value < 120 else f"{value / 60:.1f} min"
    return f"{value / GIB:.2f} GiB" if value >= GIB else f"{value / MIB:.1f} MiB"


def _graphs_sentence(phase: PhaseForecast, *, captures: bool) -> str:
    if phase.captured is None:
        unknown = ", and how many graphs fit is unknown" if captures else ""
        return f"{phase.phase}: {plural(phase.planned, 'bucket')}{unknown}"
    count, best = len(phase.captured), phase.captured_at_best
    more = f", {best} by the most optimistic source" if best not in (None, count) else ""
    return f"{phase.phase}: {count} of {phase.planned} graphs captured ({phase.captured_percent} %){more}"


def _padding_sentence(foreseen: DeploymentForecast) -> str | None:
    """Return a sentence about the padding of the plan; None if the padding is unknown."""
    scores = foreseen.plan_figures.scores if foreseen.plan_figures else {}
    said = [f"{phase} {each.padding:.3f}" for phase, each in scores.items() if each.padding is not None]
    if not said:
        return None
    return f"padding: {', '.join(said)} (1.0 is none); `gaudi-plan compare` shows other strategies and fewer graphs"


def _launch_lines(config: RuntimeConfig | None) -> Iterator[str]:
    """Yield the lines of the engine's shell command; nothing if the engine has no command. Raises ConfigError."""
    if config is None:
        return
    if _requires_release_pair(config):
        yield f"for {RELEASES}"
    parts = [f"{name}={shlex.quote(value)}" for name, value in render_engine_options(config).env.items()] + [
        *_vllm_command_lines(config)
    ]
    if parts:
        yield "started with:"
        yield " \\\n".join(f"  {part}" for part in parts)


def _requires_release_pair(config: RuntimeConfig | None) -> bool:
    """Return True if vLLM serves on a card, which requires a matching pair of vLLM and plugin."""
    return config is not None and config.engine.name is EngineName.VLLM and config.engine.device == "hpu"


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
