"""The checks of a spec against the forecast of its plan (docs/reference/conditions.md, Before a pod runs).

The checks compare the bucket gaps and the estimate of the forecast (spec_forecast.py) with the spec. Only a proven
shortfall is a violation. A shortfall is proven if the spec names the model and even the lowest figures of any source
are too high, or if a simulation behaves exactly as described. Other shortfalls are only reported. In TorchCompile the
size of graphs is unknown, so `describe_gate_opening` returns what opens the gate.
"""

from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.admission.estimate import Estimate, GraphBounds
from gaudi_operator.core.admission.spec_forecast import forecast_plan
from gaudi_operator.core.rendering.execution_mode import captures_graphs, execution_mode, runs_on_cpu
from gaudi_operator.core.resource import Inference
from gaudi_runtime.contract.config import EngineName, ExecutionMode
from gaudi_runtime.contract.report import BucketPhase, percent, reaches_percent
from gaudi_runtime.errors import Problem
from gaudi_runtime.forecast.result import Reason
from gaudi_runtime.forecast.thresholds import describe_gate


def estimated_violation(inference: Inference) -> Problem | None:
    """Check the forecast, and return the proven problem that prevents every pod of this spec from serving, or None."""
    estimate = _estimate(inference)
    if estimate is None:
        return None
    if estimate.problem is not None and estimate.problem_proven:
        return Problem(estimate.problem.reason, _explain_problem("does", estimate.problem, inference))
    if inference.spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    sentence = _shortfall_sentence(inference, estimate, at_best=True)
    return Problem("ThresholdsUnreachable", f"{sentence} Source: {estimate.source}.") if sentence else None


def check_plan_gaps(inference: Inference) -> Problem | None:
    """Check the forecast for batches without a bucket, unless spec.bucketing.allowGaps permits them."""
    spec, forecast = inference.spec, forecast_plan(inference)
    if forecast is None or spec.bucketing.allow_gaps or not spec.warmup.enabled:
        return None
    gaps = forecast.plan_coverage.describe_gaps()
    if gaps is None:
        return None
    return Problem(
        "BucketsMissing",
        f"{gaps}. A request with such a batch would wait for a compile. Add buckets for these batches to "
        "spec.bucketing, or set spec.bucketing.allowGaps to true.",
    )


def estimated_shortfall(inference: Inference) -> str | None:
    """Check the forecast, and return a sentence about an estimated but unproven shortfall, or None."""
    estimate = _estimate(inference)
    if estimate is None:
        return None
    if estimate.problem is not None:
        return _explain_problem("may", estimate.problem, inference)
    return _shortfall_sentence(inference, estimate, at_best=False)


def describe_gate_opening(inference: Inference) -> str | None:
    """Return what opens the gate if the number of graphs that fit is unknown. Return None in all other cases.

    The sizes of graphs are known only for HPU graphs.
    """
    spec, forecast = inference.spec, forecast_plan(inference)
    mode = execution_mode(inference)
    if forecast is None or mode is not ExecutionMode.TORCH_COMPILE or not captures_graphs(inference):
        return None
    without_card = spec.engine.name is EngineName.SIM or runs_on_cpu(spec.accelerator)
    if without_card or spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    phases = (
        (BucketPhase.PROMPT, forecast.prompt_buckets, spec.readiness.min_captured_prompt_percent),
        (BucketPhase.DECODE, forecast.decode_buckets, spec.readiness.min_captured_decode_percent),
    )
    thresholds = {phase: min_percent for phase, planned, min_percent in phases if planned and min_percent}
    return describe_gate(thresholds) if thresholds else None


def _estimate(inference: Inference) -> Estimate | None:
    forecast = forecast_plan(inference)
    return forecast.estimate if forecast else None


def _explain_problem(verb: str, problem: Problem, inference: Inference) -> str:
    if problem.reason is Reason.PARALLELISM:
        return f"The model {verb} not fit the ranks of spec.parallelism: {problem.message}."
    advice = "use more cards, a smaller model or quantization"
    return (
        f"The model {verb} not fit: {problem.message}. To free memory, {advice}. {_forecast_command_hint(inference)}."
    )


def _shortfall_sentence(inference: Inference, estimate: Estimate, *, at_best: bool) -> str | None:
    """Return a clause for each phase that cannot reach its threshold, and the remedy, or None if all phases can."""
    readiness = inference.spec.readiness
    phases = (
        ("prompt", estimate.prompt, readiness.min_captured_prompt_percent),
        ("decode", estimate.decode, readiness.min_captured_decode_percent),
    )
    clauses = [
        clause
        for phase, bounds, min_percent in phases
        if bounds is not None and (clause := _shortfall_clause(phase, bounds, min_percent, at_best=at_best))
    ]
    if not clauses:
        return None
    advice = "raise spec.warmup.graphMemoryPercent, plan fewer buckets, or lower the percentages in spec.readiness"
    return (
        f"spec.readiness {' and '.join(clauses)}. To make the graphs fit, {advice}. "
        f"{_forecast_command_hint(inference)}."
    )


def _forecast_command_hint(inference: Inference) -> str:
    """Return a reference to gaudi-plan, which finds a remedy. The search takes too much CPU time for a reconcile."""
    identity = inference.identity
    command = f"gaudi-plan forecast --from-cluster {identity.name} -n {identity.namespace}"
    return f"`{command}` finds the smallest change"


def _shortfall_clause(phase: str, bounds: GraphBounds, min_percent: int, *, at_best: bool) -> str | None:
    graph_count = bounds.at_best if at_best else bounds.expected
    if reaches_percent(graph_count, bounds.planned, min_percent) is not False:
        return None
    qualifier, reached_percent = "at most" if at_best else "about", percent(graph_count, bounds.planned)
    return (
        f"requires {min_percent} % of the {phase} graphs, but {qualifier} {graph_count} of {bounds.planned} "
        f"({reached_percent} %) fit"
    )
