"""`gaudi-plan forecast`: memory, graphs and warm-up of a deployment, before a card is paid for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.contract.report import BucketPhase

if TYPE_CHECKING:
    from gaudi_operator.cli.plan.forecasting import Foreseen
    from gaudi_runtime.figure import Figure
    from gaudi_runtime.forecast.result import PhaseForecast

CardOption = Annotated[str | None, typer.Option(help="Card to forecast for: gaudi2, gaudi3 or none (the CPU).")]
ModelOption = Annotated[
    str | None, typer.Option(help="Repository of a public model, or the path of a checkpoint's config.json.")
]


@asks
def forecast(
    question: PlanQuestion,
    card: CardOption = None,
    model: ModelOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print what a deployment will need: memory, graphs and time, each figure with its source.

    \b
    gaudi-plan forecast -f examples/llama-3.1-8b-gaudi3.yaml
    gaudi-plan forecast -f limits.json --model Qwen/Qwen3-32B --card gaudi3
    gaudi-plan forecast -f model.yaml --model checkpoint/config.json -o json
    """
    from gaudi_operator.cli.plan.forecasting import foresee

    foreseen = foresee(question, card, model)

    def show() -> None:
        from gaudi_operator.cli.plan.forecast_table import print_forecast

        print_forecast(foreseen)

    write(Answer(data=_data(foreseen), rows=lambda: _rows(foreseen), show=show), output)


def _data(foreseen: "Foreseen") -> dict[str, Any]:
    from gaudi_operator.cli.plan.launch import launch_data

    found = foreseen.forecast
    return {
        "card": found.card,
        "model": found.model,
        "fits": foreseen.fits,
        "memory": {_camel(name): _figure(each) for name, each in vars(found.memory).items()} if found.memory else None,
        "kvBlocks": _figure(found.kv_blocks),
        **{phase.value: _phase(getattr(found, phase.value)) for phase in BucketPhase},
        "warmupSeconds": _figure(found.warmup_seconds),
        "problems": [{"reason": each.reason, "message": each.message} for each in foreseen.problems],
        "advice": [change.text for change in foreseen.advice],
        "notes": found.notes,
        "hints": foreseen.hints,
        "startedWith": launch_data(foreseen.config),
        "warnings": found.plan.warnings if found.plan else (),
    }


def _phase(phase: "PhaseForecast | None") -> dict[str, Any] | None:
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


def _figure(figure: "Figure | None") -> dict[str, Any] | None:
    if figure is None:
        return None
    bounds = {name: value for name, value in (("low", figure.low), ("high", figure.high)) if value is not None}
    return {"value": figure.value, **bounds, "confidence": figure.confidence, "source": figure.source}


def _rows(foreseen: "Foreseen") -> Iterator[tuple[object, ...]]:
    yield "figure", "unit", "value", "low", "high", "confidence", "source"
    for name, unit, figure in foreseen.figures():
        yield name, unit, figure.value, figure.low, figure.high, figure.confidence.value, figure.source


def _camel(name: str) -> str:
    from pydantic.alias_generators import to_camel

    return to_camel(name)
