"""Specs for forecasts: the deployment of the reference logs on the described card, with simulated and real engines."""

from typing import Any

from tests.support.builders import Object, merged

SEED: Object = {
    "model": {"maxModelLen": 2048},
    "accelerator": {"generation": "gaudi2", "deviceMemory": None},
    "engine": {
        "name": "sim",
        "blockSize": 1,
        "maxNumSeqs": 4,
        "maxNumPrefillSeqs": 4,
        "maxNumBatchedTokens": 4096,
        "deviceMemoryUtilizationPercent": 50,
        "settings": {"VLLM_CONTIGUOUS_PA": "false", "card": "gaudi2", "model": "meta-llama/Llama-3.1-8B"},
    },
    "bucketing": {
        "strategy": "Linear",
        "prompt": {
            "batchSize": {"min": 1, "step": 32, "max": 4},
            "query": {"min": 128, "step": 128, "max": 1024},
        },
        "decode": {"batchSize": {"min": 1, "step": 128, "max": 4}, "blocks": {"min": 128, "step": 128, "max": 2048}},
        "gaps": "Allow",
    },
    "warmup": {"graphMemoryPercent": 40},
    "readiness": {"minCapturedPromptPercent": 100, "minCapturedDecodePercent": 100},
}
"""Log 000: Llama 3.1 8B on one Gaudi 2, where 15 of 24 prompt graphs fit (docs/internals/warmup.md, Capture budget).

The release of this log counts decode lengths in tokens, so a block has one token.
"""


def seed(**changes: Any) -> Object:
    """Return the spec sections SEED with `changes` merged as in tests.support.builders."""
    return merged(SEED, changes)


def on_a_card(**changes: Any) -> Object:
    """Return the spec sections with a real engine. Only the served name identifies the model."""
    real = {
        "engine": {"name": "vllm", "settings": {"card": None, "model": None}, "executionMode": "HpuGraphs"},
        "model": {"servedNames": ["meta-llama/Llama-3.1-8B"]},
    }
    return merged(merged(SEED, real), changes)


def from_the_hub(repository: str = "meta-llama/Llama-3.1-8B", **changes: Any) -> Object:
    """Return the spec sections with a real engine and a model repository."""
    source = {"persistentVolumeClaim": None, "huggingFace": {"repo": repository}}
    real = {"engine": {"name": "vllm", "settings": {"card": None, "model": None}, "executionMode": "HpuGraphs"}}
    spec = merged(merged(SEED, real), changes)
    # Keep the None values. When this spec is merged into another spec, a None value removes the other spec's source.
    return {**spec, "model": {**spec["model"], "source": source}}
