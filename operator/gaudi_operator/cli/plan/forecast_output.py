"""The output of a forecast as JSON, CSV or text: verdict and remedy first, then the figures.

Notes, requested sources, and the engine's command line follow the figures.
"""

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from gaudi_operator.cli.plan.faults import SpecRefused
from gaudi_operator.cli.plan.output import CommandOutput, stdout, table
from gaudi_operator.cli.plan.verdict import DeploymentForecast, Verdict, sentence_of
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.catalog.release_pairs import PAIRS, RELEASES
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.contract.text import on_one_line
from gaudi_runtime.forecast.result import PhaseForecast
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.planning.coverage import PhaseCoverage
from gaudi_runtime.units import plural

if TYPE_CHECKING:
    from rich.console import Console

GIB, MIB = 2**30, 2**20
FIGURE_COLUMNS = ("figure", "unit", "value", "low", "high", "confidence", "source")


def answer(foreseen: DeploymentForecast, *, sources: bool = False) -> CommandOutput:
    """Return the output of `gaudi-plan forecast`. If `sources` is True, the table shows the source of each figure."""
    return CommandOutput(data=_data(foreseen), rows=lambda: _rows(foreseen), show=lambda: _print(foreseen, sources))


def refusal_answer(refused: SpecRefused) -> CommandOutput:
    """Return the output of `gaudi-plan forecast` for a document that the API server refuses.

    The output contains no forecast.
    """
    why = tuple(sentence_of(each) for each in refused.sentences)
    problems = [{"reason": "SchemaViolated", "message": each} for each in why]
    first = f"{Verdict.REFUSED}: the API server refuses {refused.document}"

    def show() -> None:
        console = stdout()
        console.print(first, style=_STYLES[Verdict.REFUSED.exit_code], markup=False, highlight=False)
        for each in why:
            console.print(f"why: {each}", markup=False, highlight=False)

    return CommandOutput(
        data={"verdict": Verdict.REFUSED, "why": why, "remedies": (), "problems": problems},
        rows=lambda: [FIGURE_COLUMNS],
        show=show,
    )


def _data(foreseen: DeploymentForecast) -> dict[str, Any]:
    found = foreseen.forecast
    started = render_engine_options(foreseen.config) if foreseen.config else None
    return {
        "card": found.card,
        "model": found.model,
        "verdict": foreseen.verdict,
        "why": foreseen.why,
        "remedies": foreseen.remedies,
        "memory": {to_camel(name): _figure(each) for name, each in vars(found.memory).items()}
        if found.memory
        else None,
        "kvBlocks": _figure(found.kv_blocks),
        **{phase.value: _phase(getattr(found, phase.value)) for phase in BucketPhase},
        "warmupSeconds": _figure(found.warmup_seconds),
        "measured": foreseen.measured.model_dump(mode="json", by_alias=True, exclude_none=True)
        if foreseen.measured
        else None,
        "problems": [{"reason": each.reason, "message": each.message} for each in foreseen.problems],
        "notes": found.notes,
        "coverage": _coverage(foreseen),
        "padding": _padding(foreseen),
        "startedWith": {"environment": started.env, "arguments": started.args} if started else None,
        "pairs": [{**asdict(each), "image": each.image} for each in PAIRS] if _takes_pair(foreseen.config) else None,
        "warnings": foreseen.warnings,
    }


def _coverage(foreseen: DeploymentForecast) -> dict[str, Any] | None:
    if foreseen.plan_figures is None:
        return None
    found = foreseen.plan_figures.uncovered
    return {phase.phase.value: _missing(phase) for phase in (found.prompt, found.decode)}


def _padding(foreseen: DeploymentForecast) -> dict[str, Any] | None:
    """Return the padding (padded / real compute) of each phase, and the increase without the last ten graphs."""
    found = foreseen.plan_figures
    if found is None:
        return None
    phases = {phase.value: each.padding for phase, each in found.scores.items()}
    return {**phases, "moreWithoutLastTen": found.last_graphs}


def _missing(phase: PhaseCoverage) -> dict[str, int]:
    return {"shapes": phase.shapes, "withoutBucket": phase.missing, "gaps": phase.gap_count}


def _phase(phase: PhaseForecast | None) -> dict[str, Any] | None:
    if phase is None:
        return None
    return {
        "planned": phase.planned,
        "captured": None if phase.captured is None else len(phase.captured),
        "capturedAtBest": phase.captured_at_best,
        "percent": phase.percent,
        "buckets": phase.captured,
        "graphBytes": _figure(phase.graph_bytes),
        "allGraphBytes": _figure(phase.all_graph_bytes),
        "compileSeconds": _figure(phase.compile_seconds),
        "captureSeconds": _figure(phase.capture_seconds),
    }


def _figure(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    bounds = {name: value for name, value in (("low", figure.low), ("high", figure.high)) if value is not None}
    return {"value": figure.value, **bounds, "confidence": figure.confidence, "source": figure.source}


def _rows(foreseen: DeploymentForecast) -> Iterator[tuple[object, ...]]:
    yield FIGURE_COLUMNS
    for name, unit, figure in foreseen.figures():
        yield name, unit, figure.value, figure.low, figure.high, figure.confidence.value, figure.source
    if plan := foreseen.measured:
        label, source = plan.basis.value.lower(), plan.source or ""
        yield from (
            (name, unit, value, value, value, label, source) for name, unit, value in foreseen.measured_figures()
        )


def _print(foreseen: DeploymentForecast, sources: bool) -> None:
    console, found = stdout(), foreseen.forecast

    def say(text: str, style: str | None = None) -> None:
        console.print(text, style=style, markup=False, highlight=False)

    model = found.model or "unknown model"
    say(f"{foreseen.verdict}: {model} on card {found.card} (an estimate)", _STYLES[foreseen.verdict.exit_code])
    for reason in foreseen.why:
        say(f"why: {reason}")
    for number, remedy in enumerate(foreseen.remedies):
        say(f"{'or' if number else 'remedy'}: {remedy}", "green")
    for warning in foreseen.warnings:
        say(f"warning: {warning}", "yellow")
    cited = _print_figures(console, foreseen, sources)
    if plan := foreseen.measured:
        figures = ", ".join(f"{name} {amount(value, unit)}" for name, unit, value in foreseen.measured_figures())
        say(f"{plan.basis.value.lower()} with this spec by {on_one_line(plan.source or 'a pod')}: {figures}")
    for phase in (found.prompt, found.decode):
        if phase:
            say(_graphs(phase, captures=found.captures))
    if padding := _padding_sentence(foreseen):
        say(padding)
    for number, source in enumerate(cited, start=1):
        say(f"[{number}] {source}")
    for note in found.notes:
        say(note)
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
            amount(figure.value, unit),
            _range(figure, unit),
            figure.confidence,
            *([f"\\[{cited.index(figure.source) + 1}]"] if sources else []),
        )
        for name, unit, figure in figures
    )
    columns = ("figure", "estimate", "other sources", "sure", *(["source"] if sources else []))
    console.print(table(rows, columns))
    return cited


def _range(figure: Figure, unit: str) -> str:
    if figure.least == figure.most:
        return ""
    return f"{amount(figure.least, unit)} to {amount(figure.most, unit)}"


def amount(value: float, unit: str) -> str:
    """Format a figure of a forecast with its unit: bytes in GiB or MiB, long times in minutes."""
    if unit == "blocks":
        return f"{int(value):,}"
    if unit == "seconds":
        return f"{value:.0f} s" if value < 120 else f"{value / 60:.1f} min"
    return f"{value / GIB:.2f} GiB" if value >= GIB else f"{value / MIB:.1f} MiB"


def _graphs(phase: PhaseForecast, *, captures: bool) -> str:
    if phase.captured is None:
        unknown = ", and how many graphs fit is unknown" if captures else ""
        return f"{phase.phase}: {plural(phase.planned, 'bucket')}{unknown}"
    count, best = len(phase.captured), phase.captured_at_best
    more = f", {best} by the most optimistic source" if best not in (None, count) else ""
    return f"{phase.phase}: {count} of {phase.planned} graphs captured ({phase.percent} %){more}"


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
    if _takes_pair(config):
        yield f"for {RELEASES}"
    parts = [f"{name}={shlex.quote(value)}" for name, value in render_engine_options(config).env.items()] + [
        *_command(config)
    ]
    if parts:
        yield "started with:"
        yield " \\\n".join(f"  {part}" for part in parts)


def _takes_pair(config: RuntimeConfig | None) -> bool:
    """Return True if vLLM serves on a card, which requires a matching pair of vLLM and plugin."""
    return config is not None and config.engine.name is EngineName.VLLM and config.engine.device == "hpu"


def _command(config: RuntimeConfig) -> Iterator[str]:
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
