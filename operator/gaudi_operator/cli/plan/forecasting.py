"""What `gaudi-plan forecast` has to say: which model and card a question speaks of, their forecast, and advice."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gaudi_operator.cli.plan.document import read_text
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_operator.core.admission.estimate import subject
from gaudi_operator.core.admission.review import hints
from gaudi_runtime.cards.card import Card
from gaudi_runtime.cards.catalog import card_named
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.figure import Figure
from gaudi_runtime.forecast.advice import Change, advise
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_of
from gaudi_runtime.forecast.result import Forecast
from gaudi_runtime.forecast.wanted import Wanted, fits, shortfalls
from gaudi_runtime.models.config_json import MAX_CONFIG_BYTES, parse_config
from gaudi_runtime.models.known import known_shape
from gaudi_runtime.models.shape import ModelShape
from gaudi_runtime.problem import Problem

DEFAULT_CARD = "gaudi2"
_NAMES = {"graphs": "graph share", "kv_cache": "KV cache", "block": "KV block", "kv_blocks": "KV blocks"}


@dataclass(frozen=True)
class Foreseen:
    """A forecast, what is wrong with it, and the smallest changes that would help.

    `certain` is False where the missing graphs would fit with the least bytes of any source. `hints` refuse nothing;
    `config` is None where only bare limits are known.
    """

    forecast: Forecast
    shortfalls: tuple[Problem, ...]
    certain: bool
    advice: tuple[Change, ...]
    hints: tuple[str, ...] = ()
    config: RuntimeConfig | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the deployment does not fit, room before graphs."""
        return (*self.forecast.problems, *self.shortfalls)

    @property
    def fits(self) -> bool | None:
        """Whether there is room for the model and the wanted graphs; None where that is unknown or uncertain."""
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
    asked = Wanted(0, 0) if found.problems else wanted
    advice = advise(inputs, shape, described, asked) if shape else ()
    certain = not fits(found, replace(wanted, at_best=True))
    told = hints(question.inference.spec) if question.inference else ()
    return Foreseen(found, shortfalls(found, wanted), certain, advice, told, question.config)


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


def _wanted(question: PlanQuestion) -> Wanted:
    if question.inference is None:
        return Wanted()
    readiness = question.inference.spec.readiness
    return Wanted(readiness.min_captured_prompt_percent, readiness.min_captured_decode_percent)


def asked_shape(question: PlanQuestion, model: str | None) -> ModelShape | None:
    """The model that is named, or else the one that the document speaks of; None for one that is not known."""
    if model is not None:
        return _named_shape(model)
    about = subject(question.inference.spec) if question.inference else None
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
