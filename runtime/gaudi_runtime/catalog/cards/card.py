"""Card: what is known about a kind of accelerator card. Data, not a device."""

from dataclasses import dataclass

from gaudi_runtime.catalog.figure import Figure


@dataclass(frozen=True)
class WarmupRates:
    """What warming up one bucket costs, as measured with `model` (a known repository) on one card.

    Seconds per bucket; graph bytes per prompt token (batch size * (query + context tokens)) and per decode sequence.
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
    """One card. `memory` in bytes as its driver reports them, `bandwidth` in bytes/s, matmul in operations/s.

    `rates` is None where nothing is known about warm-up, as on a CPU.
    """

    name: str
    memory: Figure | None
    bandwidth: Figure | None = None
    bf16_matmul: Figure | None = None
    fp8_matmul: Figure | None = None
    rates: WarmupRates | None = None
