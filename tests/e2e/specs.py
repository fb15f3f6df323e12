"""Parts of a spec that several tests use."""

ONE_BUCKET = {
    "strategy": "Linear",
    "prompt": {"query": {"min": 256, "step": 256, "max": 256}},
    "decode": {"batchSize": {"min": 4, "step": 4, "max": 4}, "blocks": {"min": 64, "step": 64, "max": 64}},
}
"""The fewest graphs with which the tiny example can serve."""

TWO_PROMPT_BUCKETS = {**ONE_BUCKET, "prompt": {"query": {"min": 128, "step": 128, "max": 256}}}

QUICK = {"replicas": 1, "bucketing": ONE_BUCKET}
"""A replica of the sim engine that is warm within a second."""

VLLM = {
    **QUICK,
    "model": {"dtype": "float32"},
    "accelerator": {"deviceMemory": "256Mi"},
    "engine": {
        "name": "vllm",
        "executionMode": "Eager",
        "blockSize": 32,
        "settings": {"VLLM_CONTIGUOUS_PA": "false", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    },
    "pod": {"resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "4Gi"}}},
}
"""A replica that is warm as soon as vLLM has loaded the model."""
