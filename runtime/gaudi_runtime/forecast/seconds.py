"""How long warm-up will take: the sum over all buckets (docs/memory.md, Time)."""

from gaudi_runtime.catalog.figure import Figure, weakest
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Phases


def warmup_seconds(inputs: ForecastInputs, phases: Phases) -> Figure | None:
    """Seconds of compiling and capturing, least and most as the sources differ; None where no rate is known."""
    figures = [
        figure for phase in phases.values() for figure in (phase.compile_seconds, phase.capture_seconds) if figure
    ]
    if not figures:
        return None
    source = "compiling and capturing, one bucket after the other; loading, sampler and defragmenter come on top"
    if not inputs.warmup.enabled:
        source = "warm-up is off: every first use of a shape compiles while serving"
    return Figure(
        value=sum(figure.value for figure in figures),
        source=source,
        confidence=weakest(*figures),
        low=sum(figure.least for figure in figures),
        high=sum(figure.most for figure in figures),
    )
