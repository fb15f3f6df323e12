"""`gaudi-plan trace`: the scores of all strategies for traffic of a trace that Optimal has not learned from.

A trace is a CSV file of requests. The file is read as a stream, several times if needed, and never as a whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.figures import ExpectedTraffic
from gaudi_operator.cli.plan.forecast import forecast_inputs_of, select_card, select_model_shape
from gaudi_operator.cli.plan.options import CostModel
from gaudi_operator.cli.plan.output import CommandOutput
from gaudi_operator.cli.plan.strategy_scores import OptimalBudget, budget_warnings, compare_on_traffic
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import ConfigError, PlanImpossible, TraceUnreadable
from gaudi_runtime.forecast.inputs import model_spread
from gaudi_runtime.planning.coverage import plan_coverage
from gaudi_runtime.planning.optimal.cost import Cost, make_roofline, token_cost, typical_cost
from gaudi_runtime.traffic.batching import ServerPace, read_traffic_of_trace
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from gaudi_runtime.traffic.trace import (
    ColumnNames,
    Request,
    count_requests,
    read_trace,
    sort_by_arrival,
    take_first_half,
)


@dataclass(frozen=True)
class SimulatedServer:
    """The simulated server of `gaudi-plan trace`, which turns the requests of a trace into batches."""

    limits: Limits
    kv_blocks: int
    pace: ServerPace


@dataclass(frozen=True)
class TraceFile:
    """A trace: a CSV file of requests.

    Every method raises ConfigError with the file's name if the file cannot be read.
    """

    path: Path
    column_names: ColumnNames

    def read_requests(self) -> Iterator[Request]:
        """Yield the requests in order of arrival."""
        if self.path.exists() and not self.path.is_file():
            raise ConfigError(
                f"{self.path} is not a regular file. A trace is read more than once, so save the trace to a file first"
            )
        try:
            with self.path.open("rb") as lines:
                yield from sort_by_arrival(read_trace(lines, self.column_names))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror}") from error
        except TraceUnreadable as error:
            raise ConfigError(f"trace {self.path} {error}") from error

    def traffic(self, server: SimulatedServer) -> Traffic:
        """Return the traffic of all requests."""
        return read_traffic_of_trace(self.read_requests(), server.limits, server.kv_blocks, server.pace)

    def traffic_halves(self, server: SimulatedServer) -> tuple[Traffic, Traffic]:
        """Return the traffic of the earlier and the later half of the requests."""
        try:
            # Read the file twice instead of storing its requests, because a trace may be larger than the memory.
            count = count_requests(self.read_requests())
        except TraceUnreadable as error:
            raise ConfigError(f"trace {self.path} {error}") from error
        requests = self.read_requests()
        earlier = read_traffic_of_trace(take_first_half(requests, count), server.limits, server.kv_blocks, server.pace)
        return earlier, read_traffic_of_trace(requests, server.limits, server.kv_blocks, server.pace)


@dataclass(frozen=True)
class Traces:
    """The traces to judge on and to learn from in `gaudi-plan trace`, and the speed of the simulated server.

    If `learned_trace` is None, Optimal learns from the earlier half of `judged_trace`. All strategies are then judged
    on the later half.
    """

    judged_trace: TraceFile
    learned_trace: TraceFile | None
    pace: ServerPace

    def traffic(self, server: SimulatedServer) -> tuple[Traffic, Traffic]:
        """Return the traffic to learn from and the traffic to judge on."""
        if self.learned_trace is None:
            return self.judged_trace.traffic_halves(server)
        return self.learned_trace.traffic(server), self.judged_trace.traffic(server)

    def assumptions(self) -> tuple[str, ...]:
        """Return sentences about the assumptions of the output."""
        judged_path = self.judged_trace.path
        learned_source = self.learned_trace.path if self.learned_trace else f"the earlier half of {judged_path}"
        return (
            f"Optimal learned from {learned_source}; all are evaluated on "
            f"{judged_path if self.learned_trace else 'the later half'}",
            "decode batches are an estimate: a server with continuous batching was simulated at "
            f"{self.pace.prompt_tokens_per_second:g} prompt tokens/s and {self.pace.decode_step_seconds:g} s a decode "
            "step",
            "prefix caching and chunked prefill are not simulated: each prompt is computed as a whole",
        )


def read_expected_traffic(document: PlanDocument, trace: TraceFile) -> ExpectedTraffic:
    """Return the traffic of a trace for a comparison of strategies. Raises ConfigError if the file cannot be read."""
    limits = _whole_prompt_limits(document.limits)
    traffic = trace.traffic(SimulatedServer(limits, document.blocks, ServerPace()))
    return ExpectedTraffic(
        traffic,
        typical_cost(limits.block_size),
        f"padding is computed for all of {trace.path}; its decode batches are an estimate",
    )


def _whole_prompt_limits(limits: Limits) -> Limits:
    """Return the limits of a server that computes whole prompts, because a trace does not show shared prefixes."""
    return limits.model_copy(update={"prefix_caching": False, "splits_prompts": None})


def score_strategies(
    document: PlanDocument, traces: Traces, budget: OptimalBudget, cost: tuple[Cost, str], save_to: Path | None
) -> CommandOutput:
    """Judge every strategy on the traffic of a trace. If `save_to` is set, write the learned traffic to that file.

    Raises ConfigError if a file cannot be read or written, and PlanImpossible if the budget is too small.
    """
    limits = _whole_prompt_limits(document.limits)
    learned_traffic, judged_traffic = traces.traffic(SimulatedServer(limits, document.blocks, traces.pace))
    if save_to:
        _save_traffic(save_to, learned_traffic)
    cost_function, cost_sentence = cost
    comparison = compare_on_traffic(
        replace(document, limits=limits), learned_traffic, judged_traffic, budget, cost_function
    )
    warnings = (
        *document.warnings,
        *_gap_warnings(document),
        *traces.assumptions(),
        cost_sentence,
        *budget_warnings(document, budget),
    )
    return CommandOutput(
        data={**comparison.data(), "warnings": warnings}, rows=comparison.rows, show=comparison.show, warnings=warnings
    )


def _gap_warnings(document: PlanDocument) -> tuple[str, ...]:
    """Return sentences about possible batches without a bucket in the document's plan, with and without context."""
    try:
        return plan_coverage(document.plan(), document.limits, document.blocks).describe_phases()
    except PlanImpossible:
        # If no plan can be made for the document, there are no buckets to check.
        return ()


def _save_traffic(path: Path, traffic: Traffic) -> None:
    try:
        path.write_text(format_traffic(traffic))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def select_cost(document: PlanDocument, cost_model: CostModel, card: str | None, model: str | None) -> tuple[Cost, str]:
    """Return the cost function for the padding in `gaudi-plan trace`, and a sentence about this cost.

    docs/internals/optimal.md (Cost) explains the costs. Raises ConfigError if a roofline is requested and the card or
    the model is unknown.
    """
    block_size = document.limits.block_size
    if cost_model is not CostModel.ROOFLINE:
        if card or model:
            raise ConfigError(f"--card and --model need --cost roofline, but {cost_model} depends on neither of them")
        if cost_model is CostModel.TOKENS:
            return token_cost(block_size), "padding is counted in tokens"
        return typical_cost(block_size), "padding is counted in operations of a typical dense model"
    shape, selected_card = select_model_shape(document, model), select_card(document, card)
    if shape is None:
        raise ConfigError("--cost roofline needs the model: name a public repository or a config.json with --model")
    roofline = make_roofline(shape, model_spread(forecast_inputs_of(document), shape), selected_card, block_size)
    return roofline, (
        "padding is counted in estimated seconds: a roofline of "
        f"{shape.name or f'a {shape.family} model'} on card {selected_card.name}, "
        f"{roofline.operations_per_second / 1e12:g} TFLOPS and {roofline.bytes_per_second / 1e12:g} TB/s as published"
    )
