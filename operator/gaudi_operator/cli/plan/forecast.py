"""`forecast`: memory, graphs and warm-up of a deployment, before a card is paid for.

`foresee` finds the model and card that a question speaks of, their forecast, and the changes that would make it fit;
`answer` writes that as JSON, as CSV, or for people: the verdict, the figures, where each comes from, and the command
that starts the engine.
"""

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from gaudi_operator.cli.plan.output import Answer, stdout, table
from gaudi_operator.cli.plan.question import PlanQuestion, read_text
from gaudi_operator.core.admission.checks import first_violation
from gaudi_operator.core.admission.estimate import forecast_target
from gaudi_operator.core.admission.plugin import plugin_violation
from gaudi_operator.core.admission.review import hints
from gaudi_operator.core.observed import AllowedHostPath, InstallationDefaults
from gaudi_operator.core.resource import Inference
from gaudi_runtime.catalog.cards import Card, card_named
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.catalog.models.config_json import MAX_CONFIG_BYTES, parse_config
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.pairs import PAIRS, RELEASES
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError, Problem
from gaudi_runtime.forecast.advice import Change, advise
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_of
from gaudi_runtime.forecast.result import Forecast, PhaseForecast, Thresholds, fits, shortfalls
from gaudi_runtime.knobs.render import render
from gaudi_runtime.units import plural

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_CARD = "gaudi2"
GIB, MIB = 2**30, 2**20
ANY_INSTALLATION = InstallationDefaults(
    "gaudi-runtime", "gaudi-runtime-hpu", allow_host_path=(AllowedHostPath("/"),), allow_simulation=True
)
"""Allows all that an installation may allow: which one the document is for is not known here."""
_NAMES = {"graphs": "graph share", "kv_cache": "KV cache", "block": "KV block", "kv_blocks": "KV blocks"}


@dataclass(frozen=True)
class Foreseen:
    """A forecast, what is wrong with it, and the smallest changes that would help.

    `certain` is False where the missing graphs would fit with the least bytes of any source. `hints` refuse nothing;
    `config` is None where only bare limits are known. `refusal` is what the operator would say against the spec.
    """

    forecast: Forecast
    shortfalls: tuple[Problem, ...]
    certain: bool
    advice: tuple[Change, ...]
    hints: tuple[str, ...] = ()
    config: RuntimeConfig | None = None
    refusal: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the deployment is refused or does not fit, room before graphs."""
        found = (*self.forecast.problems, *self.shortfalls)
        refused = self.refusal
        # The forecast says the same with its own figures.
        known = refused is None or refused.reason in {each.reason for each in found}
        return found if known or refused is None else (refused, *found)

    @property
    def fits(self) -> bool | None:
        """Whether there is room for the model and the wanted graphs; None where that is unknown or uncertain."""
        if self.refusal:
            return False
        if self.problems:
            return False if self.certain else None
        return True if self.forecast.memory else None

    def figures(self) -> Iterator[tuple[str, str, Figure]]:
        """Every known figure with its name and unit, in the order of the sum."""
        memory = self.forecast.memory
        for name, figure in (vars(memory) if memory else {"kv_blocks": self.forecast.kv_blocks}).items():
            yield _NAMES.get(name, name), "blocks" if name == "kv_blocks" else "bytes", figure
        for phase in BucketPhase:
            yield from self._phase_figures(phase)
        if self.forecast.warmup_seconds:
            yield "warm-up", "seconds", self.forecast.warmup_seconds

    def _phase_figures(self, phase: BucketPhase) -> Iterator[tuple[str, str, Figure]]:
        found = self.forecast.prompt if phase is BucketPhase.PROMPT else self.forecast.decode
        if found is None:
            return
        named = (
            ("graphs", "bytes", found.graph_bytes),
            ("all graphs", "bytes", found.all_graph_bytes),
            ("compiling", "seconds", found.compile_seconds),
            ("capturing", "seconds", found.capture_seconds),
        )
        yield from ((f"{phase} {name}", unit, figure) for name, unit, figure in named if figure)


def foresee(question: PlanQuestion, card: str | None, model: str | None) -> Foreseen:
    """The forecast for a question; `card` and `model` replace what it says itself. Raises ConfigError."""
    if question.release != "current":
        raise ConfigError(f"release {question.release} is planned, not forecast: leave it out")
    inputs, wanted = asked_inputs(question), _wanted(question)
    shape, described = asked_shape(question, model), asked_card(question, card)
    found = forecast(inputs, shape, described)
    # Room first: without it the graphs that are missing say nothing.
    asked = Thresholds(0, 0) if found.problems else wanted
    advice = advise(inputs, shape, described, asked) if shape else ()
    certain = not fits(found, replace(wanted, at_best=True))
    advised = hints(question.inference) if question.inference else ()
    refusal = _refusal(question.inference) if question.inference else None
    return Foreseen(found, shortfalls(found, wanted), certain, advice, advised, question.config, refusal)


def _refusal(inference: Inference) -> Problem | None:
    return first_violation(inference, ANY_INSTALLATION) or plugin_violation(inference)


def asked_inputs(question: PlanQuestion) -> ForecastInputs:
    """What a question says about its deployment, model and card aside."""
    if question.config is None:
        return ForecastInputs(question.policy, question.limits, kv_blocks=question.kv_blocks)
    inference = question.inference
    return replace(
        inputs_of(question.config),
        policy=question.policy,
        limits=question.limits,
        kv_blocks=question.kv_blocks,
        tokens_follow_length=inference is not None and inference.spec.engine.max_num_batched_tokens is None,
    )


def _wanted(question: PlanQuestion) -> Thresholds:
    if question.inference is None:
        return Thresholds()
    readiness = question.inference.spec.readiness
    return Thresholds(readiness.min_captured_prompt_percent, readiness.min_captured_decode_percent)


def asked_shape(question: PlanQuestion, model: str | None) -> ModelShape | None:
    """The model that is named, or else the one that the document speaks of; None for one that is not known."""
    if model is not None:
        return _named_shape(model)
    about = forecast_target(question.inference.spec) if question.inference else None
    if about is not None:
        return known_shape(about.model)
    served = question.config.model.served_names if question.config else ()
    return next((shape for name in served if (shape := known_shape(name))), None)


def _named_shape(model: str) -> ModelShape:
    shape = known_shape(model)
    if shape is not None:
        return shape
    path = Path(model)
    if not path.exists():
        raise ConfigError(
            f"model {model!r} is neither a known repository nor a file; give the path of the checkpoint's config.json"
        )
    return parse_config(read_text(path / "config.json" if path.is_dir() else path, MAX_CONFIG_BYTES))


def asked_card(question: PlanQuestion, card: str | None) -> Card:
    """The card that is named, or else the one that the document speaks of. Raises ConfigError for an unknown one."""
    if card is not None:
        return card_named(card)
    config, inference = question.config, question.inference
    simulated = config.engine.sim_script.get("card") if config and config.engine.name is EngineName.SIM else None
    if simulated is not None:
        return card_named(str(simulated))
    if inference is not None:
        return card_named(inference.spec.accelerator.generation)
    return card_named("none" if config and config.engine.device == "cpu" else DEFAULT_CARD)


def answer(foreseen: Foreseen) -> Answer:
    """As the command prints it."""
    return Answer(data=_data(foreseen), rows=lambda: _rows(foreseen), show=lambda: _print(foreseen))


def _data(foreseen: Foreseen) -> dict[str, Any]:
    found = foreseen.forecast
    started = render(foreseen.config) if foreseen.config else None
    return {
        "card": found.card,
        "model": found.model,
        "fits": foreseen.fits,
        "memory": {to_camel(name): _figure(each) for name, each in vars(found.memory).items()}
        if found.memory
        else None,
        "kvBlocks": _figure(found.kv_blocks),
        **{phase.value: _phase(getattr(found, phase.value)) for phase in BucketPhase},
        "warmupSeconds": _figure(found.warmup_seconds),
        "problems": [{"reason": each.reason, "message": each.message} for each in foreseen.problems],
        "advice": [change.text for change in foreseen.advice],
        "notes": found.notes,
        "hints": foreseen.hints,
        "startedWith": {"environment": started.env, "arguments": started.args} if started else None,
        "pairs": [{**asdict(each), "image": each.image} for each in PAIRS] if _takes_pair(foreseen.config) else None,
        "warnings": found.plan.warnings if found.plan else (),
    }


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


def _rows(foreseen: Foreseen) -> Iterator[tuple[object, ...]]:
    yield "figure", "unit", "value", "low", "high", "confidence", "source"
    for name, unit, figure in foreseen.figures():
        yield name, unit, figure.value, figure.low, figure.high, figure.confidence.value, figure.source


def _print(foreseen: Foreseen) -> None:
    """What fits, the table of figures with numbered sources, problems, advice, notes, and the command."""
    console, found = stdout(), foreseen.forecast
    console.print(f"{found.model or 'a model of unknown shape'} on card {found.card}: an estimate", highlight=False)
    sources = _print_figures(console, foreseen)
    for phase in (found.prompt, found.decode):
        if phase:
            console.print(_graphs(phase), highlight=False)
    for problem in foreseen.problems:
        doubtful = "does not fit" if foreseen.certain else "may not fit"
        verdict = "refused by the operator" if problem is foreseen.refusal else doubtful
        console.print(f"{verdict}: {problem.message}", style="red", highlight=False)
    for change in foreseen.advice:
        console.print(f"would fit: {change.text}", style="green", highlight=False)
    for number, source in enumerate(sources, start=1):
        console.print(f"[{number}] {source}", markup=False, highlight=False)
    for note in (*found.notes, *foreseen.hints):
        console.print(note, markup=False, highlight=False)
    for line in _launch_lines(foreseen.config):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_figures(console: "Console", foreseen: Foreseen) -> list[str]:
    """The table; answers the sources in the order of their numbers."""
    figures = list(foreseen.figures())
    sources = list(dict.fromkeys(figure.source for _, _, figure in figures))
    rows = (
        (
            name,
            amount(figure.value, unit),
            _range(figure, unit),
            figure.confidence,
            f"\\[{sources.index(figure.source) + 1}]",
        )
        for name, unit, figure in figures
    )
    console.print(table(rows, ("figure", "estimate", "other sources", "sure", "source")))
    return sources


def _range(figure: Figure, unit: str) -> str:
    if figure.least == figure.most:
        return ""
    return f"{amount(figure.least, unit)} to {amount(figure.most, unit)}"


def amount(value: float, unit: str) -> str:
    """A figure with its unit: bytes in GiB or MiB, seconds in minutes where there are many."""
    if unit == "blocks":
        return f"{int(value):,}"
    if unit == "seconds":
        return f"{value:.0f} s" if value < 120 else f"{value / 60:.1f} min"
    return f"{value / GIB:.2f} GiB" if value >= GIB else f"{value / MIB:.1f} MiB"


def _graphs(phase: PhaseForecast) -> str:
    if phase.captured is None:
        return f"{phase.phase}: {plural(phase.planned, 'bucket')}"
    count, best = len(phase.captured), phase.captured_at_best
    more = f", {best} with the least bytes of any source" if best not in (None, count) else ""
    return f"{phase.phase}: {count} of {phase.planned} graphs captured ({phase.percent} %){more}"


def _launch_lines(config: RuntimeConfig | None) -> Iterator[str]:
    """The command in lines for a shell; nothing where the engine gets nothing. Raises ConfigError."""
    if config is None:
        return
    if _takes_pair(config):
        yield f"for {RELEASES}"
    parts = [f"{name}={shlex.quote(value)}" for name, value in render(config).env.items()] + [*_command(config)]
    if parts:
        yield "started with:"
        yield " \\\n".join(f"  {part}" for part in parts)


def _takes_pair(config: RuntimeConfig | None) -> bool:
    """Whether vLLM is to serve on a card, where only pairs of it and its plugin are driven."""
    return config is not None and config.engine.name is EngineName.VLLM and config.engine.device == "hpu"


def _command(config: RuntimeConfig) -> Iterator[str]:
    """The runtime makes vLLM itself, with workers of its own, so this is what `vllm serve` would be given."""
    if config.engine.name is not EngineName.VLLM:
        return
    yield "vllm serve"
    words: list[str] = []
    for word in render(config).args:
        if word.startswith("--") and words:
            yield shlex.join(words)
            words = []
        words.append(word)
    yield shlex.join(words)
