"""Intel Gaudi 2. Seeds are reference logs, of real servers (docs/memory.md, Cards, lists them and the arithmetic)."""

from gaudi_runtime.catalog.cards.card import Card, WarmupRates
from gaudi_runtime.catalog.figure import Confidence, Figure

KIB, MIB, GIB = 2**10, 2**20, 2**30

DATA_SHEET = "Intel's data sheet of Gaudi 2"
SEED_SECONDS = "seed 000 (Llama 3.1 8B, one Gaudi 2, timestamps of whole seconds)"
SLOWER = "seed 003, a later release, took {} s a bucket for compile and capture together"
LEANER = "the same model in the release of September 2024 took {} (vllm-gaudi's guide to quantization, Logs)"


def _seconds(value: float, counted: str, high: float, slower: str) -> Figure:
    source = f"{counted} in {SEED_SECONDS}; {SLOWER.format(slower)}"
    return Figure(value, source, Confidence.MEASURED, high=high)


RATES = WarmupRates(
    model="meta-llama/Llama-3.1-8B",
    prompt_compile_seconds=_seconds(13 / 24, "24 buckets in 13 s", 0.98, "1.83"),
    decode_compile_seconds=_seconds(16 / 48, "48 buckets in 16 s", 1.39, "2.61"),
    prompt_capture_seconds=_seconds(7 / 15, "15 graphs in 7 s", 0.85, "1.83"),
    decode_capture_seconds=_seconds(14 / 48, "48 graphs in 14 s", 1.22, "2.61"),
    prompt_graph_bytes_per_token=Figure(
        1.43 * MIB,
        "free memory before and after the captures of seed 000 (Llama 3.1 8B, one Gaudi 2); "
        + LEANER.format("67.72 MiB for 24 prompt graphs of 32256 tokens"),
        Confidence.MEASURED,
        low=67.72 * MIB / 32_256,
    ),
    decode_graph_bytes_per_sequence=Figure(
        161.9 * MIB / 112,
        "161.9 MiB for 48 decode graphs of 112 sequences in seed 000 (Llama 3.1 8B, one Gaudi 2); "
        + LEANER.format("64 KiB for one decode graph of 4 sequences"),
        Confidence.MEASURED,
        low=16 * KIB,
    ),
)

GAUDI2 = Card(
    name="gaudi2",
    memory=Figure(94.62 * GIB, "logged as total device memory in seed 000; sold as 96 GB", Confidence.MEASURED),
    bandwidth=Figure(2.45e12, DATA_SHEET, Confidence.PUBLISHED),
    bf16_matmul=Figure(432e12, DATA_SHEET, Confidence.PUBLISHED),
    fp8_matmul=Figure(865e12, DATA_SHEET, Confidence.PUBLISHED),
    rates=RATES,
)
