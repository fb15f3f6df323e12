"""The recompilations of steps outside of forwards, by the kinds of requests that made the steps wait."""

from collections.abc import Iterable

from gaudi_runtime.contract.compiles import StepCompiles, StepPart
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.units import plural

MOST_KINDS = 3
"""The number of kinds of requests in a message, those that waited longest first."""


def step_compiles(report: WarmupReport) -> tuple[StepCompiles, ...]:
    """Return the recompilations of the sampler and of other operations, which no bucket avoids."""
    return tuple(step for step in report.served.step_compiles if step.part is not StepPart.FORWARD)


def describe_step_compiles(steps: Iterable[StepCompiles]) -> str:
    """Return the kinds of requests for which steps waited, and the remedy, as sentences."""
    totals: dict[str, tuple[int, float]] = {}
    for step in steps:
        name = f"`{step.kind}`" if step.kind else f"{step.part} operations"
        count, seconds = totals.get(name, (0, 0.0))
        totals[name] = count + step.count, seconds + step.seconds
    longest = sorted(totals.items(), key=lambda item: -item[1][1])[:MOST_KINDS]
    waits = ", ".join(
        f"{plural(count, 'step')} waited {seconds:.1f} s for {name}" for name, (count, seconds) in longest
    )
    return (
        f"{waits}. Warm-up did not run these operations, and all requests of such a step waited. Avoid these kinds of "
        "requests, or set spec.readiness.onRecompiles to Ignore."
    )
