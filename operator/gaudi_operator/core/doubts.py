"""What an estimate says against a spec: a refusal where it is proven, a doubt where the card may yet do better.

Proven is what holds for the lowest figures that any source gives, of a model that the spec names; and all of a
simulation, which does what its description says. Everything else is a doubt: it is told, and refuses nothing
(docs/conditions.md, Before a pod runs).
"""

from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.advice import graph_advice, room_advice
from gaudi_operator.core.checks import Violation
from gaudi_operator.core.estimate import Estimate, Fitting
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.outlook import outlook
from gaudi_runtime.contract.report import meets, percent
from gaudi_runtime.forecast.result import Problem, Trouble


def estimated_violation(inference: Inference) -> Violation | None:
    """What is proven to keep every pod of this spec from serving; None when a pod may find otherwise."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None and found.proven:
        return Violation(found.problem.trouble.value, _no_room("does", found.problem, inference))
    if inference.spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    short = _shortfalls(inference, found, at_best=True)
    return Violation("ThresholdsUnreachable", f"{short} This is known from {found.source}.") if short else None


def doubt(inference: Inference) -> str | None:
    """What an estimate says against the spec without proof, as a sentence; None when it says nothing."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None:
        return _no_room("may", found.problem, inference)
    return _shortfalls(inference, found, at_best=False) or None


def _estimate(inference: Inference) -> Estimate | None:
    found = outlook(inference)
    return None if found is None else found.estimate


def _no_room(verb: str, problem: Problem, inference: Inference) -> str:
    if problem.trouble is Trouble.PARALLELISM:
        return f"The model {verb} not fit these ranks: {problem.sentence}."
    advice = room_advice(inference) or "use more cards, a smaller model or fewer bits"
    return f"The model {verb} not fit: {problem.sentence}. To give it room, {advice}."


def _shortfalls(inference: Inference, found: Estimate, *, at_best: bool) -> str:
    """A clause for each phase whose threshold is out of reach, and what to change; empty when both are within it."""
    readiness = inference.spec.readiness
    phases = (
        ("prompt", found.prompt, readiness.min_captured_prompt_percent),
        ("decode", found.decode, readiness.min_captured_decode_percent),
    )
    short = [
        clause
        for phase, fitting, least in phases
        if fitting is not None and (clause := _shortfall(phase, fitting, least, at_best=at_best))
    ]
    if not short:
        return ""
    advice = graph_advice(inference, readiness) or "give graphs more memory, plan fewer buckets or ask for less"
    return f"spec.readiness {' and '.join(short)}. To make it fit, {advice}."


def _shortfall(phase: str, fitting: Fitting, least: int, *, at_best: bool) -> str | None:
    count = fitting.at_best if at_best else fitting.expected
    if meets(count, fitting.planned, least) is not False:
        return None
    word, reach = "at most" if at_best else "about", percent(count, fitting.planned)
    return f"asks for {least} % of the {phase} graphs, but {word} {count} of {fitting.planned} ({reach} %) fit"
