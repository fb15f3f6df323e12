"""A card's measured rates, scaled to another model (docs/memory.md, Scaling)."""

from dataclasses import dataclass, replace
from functools import lru_cache

from gaudi_runtime.catalog.cards.card import WarmupRates
from gaudi_runtime.catalog.figure import Confidence, Figure, weakest
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.ranks import Spread
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.models.workspace import bytes_per_token
from gaudi_runtime.contract.report import BucketPhase

MEASURED_DTYPE_BYTES = 2
FP8_COMPILE = 504 / 66
FP8_BITS = 8
FP8_SOURCE = "in FP8 the published warm-up of an 8B model took 504 s instead of 66 s"


@dataclass(frozen=True)
class PhaseRates:
    """Seconds per bucket, and graph bytes per unit of weight (docs/warmup.md, Capture budget), of one phase."""

    compile_seconds: Figure
    capture_seconds: Figure
    bytes_per_weight: Figure


def phase_rates(rates: WarmupRates, phase: BucketPhase, shape: ModelShape | None, spread: Spread | None) -> PhaseRates:
    """The rates of one phase for a model; without a model they are those of the measured one, and assumed."""
    prompt = phase is BucketPhase.PROMPT
    seconds, size = (1.0, 1.0) if shape is None or spread is None else _scales(rates.model, shape, spread)
    compiling = rates.prompt_compile_seconds if prompt else rates.decode_compile_seconds
    capturing = rates.prompt_capture_seconds if prompt else rates.decode_capture_seconds
    graphs = rates.prompt_graph_bytes_per_token if prompt else rates.decode_graph_bytes_per_sequence
    note = "by the number of layers"
    return PhaseRates(
        compile_seconds=_in_fp8(_scaled(compiling, seconds, note, known=shape is not None), spread),
        capture_seconds=_scaled(capturing, seconds, note, known=shape is not None),
        bytes_per_weight=_scaled(graphs, size, "by layers and their width", known=shape is not None),
    )


@lru_cache(maxsize=256)
def _scales(measured_model: str, shape: ModelShape, spread: Spread) -> tuple[float, float]:
    """Factors of seconds and of graph bytes. A graph grows with the layers of a card and their widest moment."""
    measured = known_shape(measured_model)
    if measured is None:
        raise LookupError(f"the rates were measured with {measured_model}, which is not among the known models")
    layers = -(-len(shape.layers) // spread.pipeline) / len(measured.layers)
    width = bytes_per_token(shape, spread.tensor, spread.dtype_bytes)
    return layers, layers * width / bytes_per_token(measured, 1, MEASURED_DTYPE_BYTES)


def _in_fp8(figure: Figure, spread: Spread | None) -> Figure:
    """Recipes of FP8 take longer to compile; by how much was published for one model only, so it is the upper end."""
    if spread is None or spread.quantization is None or spread.quantization.bits != FP8_BITS:
        return figure
    return replace(figure, source=f"{figure.source}; {FP8_SOURCE}", high=max(figure.most, figure.value * FP8_COMPILE))


def _scaled(figure: Figure, factor: float, how: str, *, known: bool) -> Figure:
    if not known:
        source = f"taken as it is, the model being unknown: {figure.source}"
        return replace(figure, source=source, confidence=Confidence.ASSUMED)
    if factor == 1:
        return figure
    return Figure(
        value=figure.value * factor,
        source=f"scaled {how} (times {factor:.3g}): {figure.source}",
        confidence=weakest(figure, replace(figure, confidence=Confidence.SCALED)),
        low=None if figure.low is None else figure.low * factor,
        high=None if figure.high is None else figure.high * factor,
    )
