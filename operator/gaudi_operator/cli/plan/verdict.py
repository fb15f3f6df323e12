"""The verdict of a forecast with its reasons and remedies, as pure functions.

The rules in `ForecastWithVerdict.verdict` are in the order of their priority. For example, a spec that the operator
refuses is REFUSED even if it fits. Graphs that may be missing are a warning, because a model serves without them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gaudi_operator.api.v1alpha1.status import PlanState
from gaudi_operator.cli.plan.plan_figures import PlanFigures
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.config import EngineName, ExecutionMode, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.result import Forecast, Reason
from gaudi_runtime.forecast.thresholds import describe_gate

_NAMES = {"graphs": "graph share", "kv_cache": "KV cache", "block": "KV block", "kv_blocks": "KV blocks"}


class Verdict(StrEnum):
    """The verdict of a forecast, which is the first word of its output."""

    FITS = "FITS"
    WARNINGS = "FITS WITH WARNINGS"
    DOES_NOT_FIT = "DOES NOT FIT"
    REFUSED = "REFUSED"
    UNKNOWN = "UNKNOWN"

    @property
    def exit_code(self) -> int:
        """The exit code of the command. Code 1 is a crash, and code 2 is a wrong document."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Verdict.FITS: 0,
    Verdict.WARNINGS: 0,
    Verdict.DOES_NOT_FIT: 3,
    Verdict.REFUSED: 4,
    Verdict.UNKNOWN: 5,
}

_NEVER_FITS = {Reason.PARALLELISM, Reason.PLAN_IMPOSSIBLE, Reason.LENGTH}
"""The problems of a forecast that no amount of memory solves. The operator refuses such a spec."""

NAME_THE_MODEL = (
    "name the model: --model with a public repository or the path of its config.json. In a GaudiInference, "
    "spec.model.servedNames may contain the public repository"
)
UNKNOWN_SHAPE = "The model's shape is unknown, so the memory that it needs is unknown too."
UNKNOWN_MEMORY = "The memory of the card is unknown. Give accelerator.deviceMemory, or a described card with --card."
SERVE_ANYWAY = "set readiness.onShortfall to ServeAndWarn: a pod then serves with the graphs that fit"
_REMEDIES: Mapping[str, tuple[str, ...]] = {
    Reason.WEIGHTS_TOO_LARGE: ("raise parallelism.tensor", "use a card with more memory"),
    Reason.NO_KV_BLOCK: ("raise parallelism.tensor", "raise engine.deviceMemoryUtilizationPercent"),
    Reason.SEQUENCE_TOO_LONG: ("lower model.maxModelLen", "raise parallelism.tensor"),
    Reason.GRAPHS_MISSING: ("raise warmup.graphMemoryPercent", SERVE_ANYWAY),
}
SERVES_ANYWAY = (
    "The number of graphs that fit is unknown until the first pod has measured them. Pods serve with the graphs that "
    "fit, because spec.readiness.onShortfall is ServeAndWarn."
)


@dataclass(frozen=True)
class ForecastWithVerdict:
    """The forecast of a deployment with its verdict and its problems.

    `shortfalls_certain` is False if the missing graphs would fit with the lowest estimate of graph bytes.
    `uncheckable_thresholds` are the thresholds that cannot be judged before a pod has measured its graphs.
    `serves_anyway` is True if pods serve even below a threshold. `plan_figures` is None without a plan.
    `refusal` is the reason why the operator would refuse the spec. `hints`
    are advice and never cause a refusal. `measured_plan` is the plan that a pod of the cluster measured, if any.
    """

    forecast: Forecast
    config: RuntimeConfig
    shortfalls: tuple[Problem, ...]
    shortfalls_certain: bool
    uncheckable_thresholds: Mapping[BucketPhase, int]
    serves_anyway: bool
    plan_figures: PlanFigures | None
    hints: tuple[str, ...] = ()
    refusal: Problem | None = None
    measured_plan: PlanState | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict whether the model, its KV cache and one sequence fit, or UNKNOWN without a shape of the model."""
        if self._refusal_problem or any(problem.reason in _NEVER_FITS for problem in self.forecast.problems):
            return Verdict.REFUSED
        if self.problems:
            return Verdict.DOES_NOT_FIT
        if self._unknown_reasons:
            return Verdict.UNKNOWN
        return Verdict.WARNINGS if self.warnings else Verdict.FITS

    @property
    def _refusal_problem(self) -> Problem | None:
        # Omit the refusal if the forecast already contains a problem with the same reason. That problem is more useful,
        # because it has figures.
        known_reasons = {problem.reason for problem in (*self.forecast.problems, *self.shortfalls)}
        return None if self.refusal is None or self.refusal.reason in known_reasons else self.refusal

    @property
    def _blocking_shortfalls(self) -> tuple[Problem, ...]:
        """The shortfalls that certainly prevent pods from serving."""
        return self.shortfalls if self.shortfalls_certain and not self.serves_anyway else ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The reasons why the deployment is refused or does not fit. Missing memory comes before missing graphs."""
        refusal = self._refusal_problem
        other_problems = (*self.forecast.problems, *self._blocking_shortfalls)
        return other_problems if refusal is None else (refusal, *other_problems)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for a verdict other than FITS, as sentences."""
        problems = tuple(_to_sentence(problem.message) for problem in self.problems)
        return problems or self._unknown_reasons

    @property
    def _unknown_reasons(self) -> tuple[str, ...]:
        # A simulation without a described card has a memory of its own, in which everything fits.
        if self.forecast.memory or self.config.engine.name is EngineName.SIM:
            return ()
        return (UNKNOWN_SHAPE if self.forecast.model is None else UNKNOWN_MEMORY,)

    @property
    def remedies(self) -> tuple[str, ...]:
        """The settings to change for the first reason or shortfall, the preferred one first; empty if none is known."""
        for problem in (*self.problems, *self.shortfalls):
            return _REMEDIES.get(problem.reason, ())
        return (NAME_THE_MODEL,) if UNKNOWN_SHAPE in self._unknown_reasons else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings to read before a deployment. No warning prevents a pod from serving."""
        gaps = self.plan_figures.plan_coverage.describe_phases() if self.plan_figures else ()
        plan_warnings = self.forecast.plan.warnings if self.forecast.plan else ()
        shortfalls = () if self._blocking_shortfalls else tuple(shortfall.message for shortfall in self.shortfalls)
        gate = SERVES_ANYWAY if self.serves_anyway else describe_gate(self.uncheckable_thresholds)
        gate_notes = (gate,) if self.uncheckable_thresholds else ()
        cold = tuple(_cold_warnings(self.config))
        return tuple(map(_to_sentence, (*gaps, *plan_warnings, *cold, *shortfalls, *gate_notes, *self.hints)))

    def figures(self) -> Iterator[tuple[str, str, Figure]]:
        """Yield (name, unit, figure) for each known figure, memory first."""
        memory = self.forecast.memory
        for name, figure in (vars(memory) if memory else {"kv_blocks": self.forecast.kv_blocks}).items():
            yield _NAMES.get(name, name), "blocks" if name == "kv_blocks" else "bytes", figure
        for phase in BucketPhase:
            yield from self._phase_figures(phase)
        if self.forecast.warmup_seconds:
            yield "warm-up", "seconds", self.forecast.warmup_seconds

    def measured_figures(self) -> Iterator[tuple[str, str, int]]:
        """Yield (name, unit, value) for each figure that a pod measured."""
        plan = self.measured_plan
        if plan is None:
            return
        figures = (
            ("KV blocks", "blocks", plan.kv_blocks),
            ("graphs", "bytes", plan.graph_bytes),
            ("warm-up", "seconds", plan.warmup_seconds),
        )
        yield from ((name, unit, value) for name, unit, value in figures if value is not None)

    def _phase_figures(self, phase: BucketPhase) -> Iterator[tuple[str, str, Figure]]:
        phase_forecast = self.forecast.prompt if phase is BucketPhase.PROMPT else self.forecast.decode
        if phase_forecast is None:
            return
        figures = (
            ("graphs", "bytes", phase_forecast.graph_bytes),
            ("all graphs", "bytes", phase_forecast.all_graph_bytes),
            ("compiling", "seconds", phase_forecast.compile_seconds),
            ("capturing", "seconds", phase_forecast.capture_seconds),
        )
        yield from ((f"{phase} {name}", unit, figure) for name, unit, figure in figures if figure)


def _cold_warnings(config: RuntimeConfig) -> Iterator[str]:
    """Yield a warning if pods serve without warm-up, or without graphs."""
    mode = config.engine.execution_mode
    if not config.warmup.enabled:
        yield "Warm-up is skipped. Each shape is compiled at its first use, while requests wait."
    elif mode in (ExecutionMode.LAZY, ExecutionMode.EAGER):
        yield f"No graphs are captured in execution mode {capitalize_contract_word(mode)}, so each step takes longer."


def _to_sentence(text: str) -> str:
    """Return a reason or remedy as a sentence with a full stop, capitalized unless it begins with a name."""
    first_word = text.partition(" ")[0]
    is_word = first_word.isalpha() and first_word.islower()
    return f"{text[0].upper() if is_word else text[0]}{text[1:].removesuffix('.')}."
