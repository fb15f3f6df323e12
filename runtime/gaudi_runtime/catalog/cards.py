"""Accelerator cards by name: their memory and rates as data, each figure with its source.

Log 000 to log 004 are the reference logs of real servers. docs/internals/warmup.md, Cards, lists the logs and the
calculations.
"""

from dataclasses import dataclass, fields, replace

from gaudi_runtime.catalog.figure import Confidence, Figure
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import GIB, MIB


@dataclass(frozen=True)
class CardWarmupRates:
    """The cost of warming up one bucket on a card, as measured with `model` (a known repository).

    Rates are in seconds per bucket, in graph bytes per prompt token (batch size * (query + context tokens)), and in
    graph bytes per decode sequence.
    """

    model: str
    prompt_compile_seconds: Figure
    decode_compile_seconds: Figure
    prompt_capture_seconds: Figure
    decode_capture_seconds: Figure
    prompt_graph_bytes_per_token: Figure
    decode_graph_bytes_per_sequence: Figure


@dataclass(frozen=True)
class Card:
    """An accelerator card.

    `memory` is in bytes as reported by the driver. `rates` is None if the cost of warm-up is unknown, as on a CPU.
    """

    name: str
    memory: Figure | None
    rates: CardWarmupRates | None = None


_SEED_SECONDS = "log 000 (Llama 3.1 8B, one Gaudi 2, timestamps of whole seconds)"
_SLOWER = "log 003, a later release, took {} s a bucket for compile and capture together"
_LEANER = "the same model in the release of September 2024 took {} (vllm-gaudi's guide to quantization, Logs)"


def _measured_seconds(value: float, measurement: str, high: float, slower_seconds: str) -> Figure:
    source = f"{measurement} in {_SEED_SECONDS}; {_SLOWER.format(slower_seconds)}"
    return Figure(value, source, Confidence.MEASURED, high=high)


GAUDI2_RATES = CardWarmupRates(
    model="meta-llama/Llama-3.1-8B",
    prompt_compile_seconds=_measured_seconds(13 / 24, "24 buckets in 13 s", 0.98, "1.83"),
    decode_compile_seconds=_measured_seconds(16 / 48, "48 buckets in 16 s", 1.39, "2.61"),
    prompt_capture_seconds=_measured_seconds(7 / 15, "15 graphs in 7 s", 0.85, "1.83"),
    decode_capture_seconds=_measured_seconds(14 / 48, "48 graphs in 14 s", 1.22, "2.61"),
    prompt_graph_bytes_per_token=Figure(
        1.43 * MIB,
        "free memory before and after the captures of log 000 (Llama 3.1 8B, one Gaudi 2); "
        + _LEANER.format("67.72 MiB for 24 prompt graphs of 32256 tokens"),
        Confidence.MEASURED,
        low=67.72 * MIB / 32_256,
    ),
    decode_graph_bytes_per_sequence=Figure(
        161.9 * MIB / 112,
        "161.9 MiB for 48 decode graphs of 112 sequences in log 000 (Llama 3.1 8B, one Gaudi 2); "
        + _LEANER.format("64 KiB for one decode graph of 4 sequences"),
        Confidence.MEASURED,
        low=16 * 1024,
    ),
)

GAUDI2 = Card(
    name="gaudi2",
    memory=Figure(94.62 * GIB, "logged as total device memory in log 000; sold as 96 GB", Confidence.MEASURED),
    rates=GAUDI2_RATES,
)


def assume_card_rates(rates: CardWarmupRates, reason: str) -> CardWarmupRates:
    """Return the rates of one card as assumptions for another card that was not measured.

    The source of each rate begins with `reason`.
    """
    model, *figures = (getattr(rates, field.name) for field in fields(rates))
    return CardWarmupRates(
        model,
        *(replace(figure, source=f"{reason}: {figure.source}", confidence=Confidence.ASSUMED) for figure in figures),
    )


GAUDI3 = Card(
    name="gaudi3",
    memory=Figure(126.5 * GIB, "about 126.5 GiB a card in vllm-gaudi issue 1736; sold as 128 GB", Confidence.MEASURED),
    # No public log shows the compile time of each graph on a Gaudi 3, so the rates of a Gaudi 2 are used.
    rates=assume_card_rates(GAUDI2_RATES, "taken from a Gaudi 2"),
)

NONE = Card(name="none", memory=None)
"""A CPU, whose memory is set by the deployment and about whose graphs nothing is known."""

CARDS = {card.name: card for card in (GAUDI2, GAUDI3, NONE)}


def card_named(name: str) -> Card:
    """Return the card with this name. Raises ConfigError with the known names."""
    try:
        return CARDS[name.lower()]
    except KeyError as error:
        raise ConfigError(f"card {name!r} is unknown. Choose one of {', '.join(CARDS)}") from error
