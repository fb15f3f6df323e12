"""Parts of a spec that several tests use."""

ONE_BUCKET = {
    "strategy": "Linear",
    "prompt": {"query": {"min": 256, "step": 256, "max": 256}},
    "decode": {"batchSize": {"min": 4, "step": 4, "max": 4}, "blocks": {"min": 64, "step": 64, "max": 64}},
}
"""The fewest graphs with which the tiny example can serve."""

TWO_PROMPT_BUCKETS = {**ONE_BUCKET, "prompt": {"query": {"min": 128, "step": 128, "max": 256}}}

QUICK = {"replicas": 1, "bucketing": ONE_BUCKET, "engine": {"executionMode": "Eager"}}
"""A replica that is warm as soon as its model is loaded."""

SIMULATED = {"replicas": 1, "bucketing": ONE_BUCKET, "engine": {"name": "sim"}}
"""A replica of the sim engine, for tests of the runtime around the engine: it saves six seconds of imports."""
