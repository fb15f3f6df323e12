"""What an estimate says against a spec: a refusal where it is proven, a doubt where the card may yet do better.

Proven is what holds for the lowest figures that any source gives, of a model that the spec names; and all of a
simulation, which does what its description says. Everything else is a doubt: it is told, and refuses nothing
(docs/conditions.md, Before a pod runs).
"""

from collections.abc import Iterator

from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.checks import Violation
from gaudi_operator.core.estimate import Estimate, Fitting
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.outlook import outlook
from gaudi_runtime.warmup.percent import meets, percent


def estimated_violation(inference: Inference) -> Violation | None:
    """What is proven to keep every pod of this spec from serving; None when a pod may find otherwise."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None and found.proven:
        return Violation(found.problem.trouble.value, f"The model does not fit: {found.problem.sentence}.")
    if inference.spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    short = "; ".join(_shortfalls(inference, found, at_best=True))
    return Violation("ThresholdsUnreachable", f"{short}. This is known from {found.source}.") if short else None


def doubt(inference: Inference) -> str | None:
    """What an estimate says against the spec without proof, as a sentence; None when it says nothing."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None:
        return f"It may not fit: {found.problem.sentence}."
    short = "; ".join(_shortfalls(inference, found, at_best=False))
    return f"{short}." if short else None


def _estimate(inference: Inference) -> Estimate | None:
    found = outlook(inference)
    return None if found is None else found.estimate


def _shortfalls(inference: Inference, found: Estimate, *, at_best: bool) -> Iterator[str]:
    """A clause for each phase whose threshold is out of reach: which percentage is within it, and what to change."""
    readiness = inference.spec.readiness
    phases = (
        ("prompt", "minCapturedPromptPercent", found.prompt, readiness.min_captured_prompt_percent),
        ("decode", "minCapturedDecodePercent", found.decode, readiness.min_captured_decode_percent),
    )
    for phase, name, fitting, least in phases:
        if fitting is not None and (clause := _shortfall(phase, name, fitting, least, at_best=at_best)):
            yield clause


def _shortfall(phase: str, name: str, fitting: Fitting, least: int, *, at_best: bool) -> str | None:
    count = fitting.at_best if at_best else fitting.expected
    if meets(count, fitting.planned, least) is not False:
        return None
    word = "at most" if at_best else "about"
    return (
        f"spec.readiness.{name} is {least}, but {word} {count} of {fitting.planned} {phase} graphs fit: "
        f"lower it to {percent(count, fitting.planned)}"
    )
