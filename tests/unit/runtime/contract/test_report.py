"""The report's bounds: no card exceeds them, and what exceeds them is no report."""

from gaudi_runtime.contract.report import BucketPhase, ColdShape, MemorySplit

GIB = 2**30


def test_small_model_in_blocks_of_one_token_has_millions() -> None:
    """Qwen2.5 0.5B takes 12 KiB a token: 24 layers, 2 heads of 64, keys and values in 16 bits."""
    blocks = 100 * GIB // (12 * 1024)
    split = MemorySplit(free=120 * GIB, usable=110 * GIB, graphs=10 * GIB, kv_cache=100 * GIB, kv_blocks=blocks)
    assert split.kv_blocks == blocks > 8_000_000
    assert ColdShape(phase=BucketPhase.DECODE, shape=(1, 1, blocks), count=1).shape[2] == blocks
