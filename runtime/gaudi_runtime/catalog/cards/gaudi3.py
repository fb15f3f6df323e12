"""Intel Gaudi 3. No public log shows its graphs one by one, so its rates are those of a Gaudi 2, and assumed."""

from dataclasses import replace

from gaudi_runtime.catalog.cards import gaudi2
from gaudi_runtime.catalog.cards.card import Card, WarmupRates
from gaudi_runtime.catalog.figure import Confidence, Figure

GIB = 2**30

DATA_SHEET = "Intel's data sheet of Gaudi 3"


def _assumed(figure: Figure) -> Figure:
    return replace(figure, source=f"taken from a Gaudi 2: {figure.source}", confidence=Confidence.ASSUMED)


RATES = WarmupRates(
    model=gaudi2.RATES.model,
    prompt_compile_seconds=_assumed(gaudi2.RATES.prompt_compile_seconds),
    decode_compile_seconds=_assumed(gaudi2.RATES.decode_compile_seconds),
    prompt_capture_seconds=_assumed(gaudi2.RATES.prompt_capture_seconds),
    decode_capture_seconds=_assumed(gaudi2.RATES.decode_capture_seconds),
    prompt_graph_bytes_per_token=_assumed(gaudi2.RATES.prompt_graph_bytes_per_token),
    decode_graph_bytes_per_sequence=_assumed(gaudi2.RATES.decode_graph_bytes_per_sequence),
)

GAUDI3 = Card(
    name="gaudi3",
    memory=Figure(126.5 * GIB, "about 126.5 GiB a card in vllm-gaudi issue 1736; sold as 128 GB", Confidence.MEASURED),
    bandwidth=Figure(3.7e12, DATA_SHEET, Confidence.PUBLISHED),
    bf16_matmul=Figure(1835e12, DATA_SHEET, Confidence.PUBLISHED),
    fp8_matmul=Figure(1835e12, DATA_SHEET, Confidence.PUBLISHED),
    rates=RATES,
)
