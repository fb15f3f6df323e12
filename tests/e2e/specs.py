"""Parts of a spec that several tests ask for."""

ONE_BUCKET = {
    "strategy": "Linear",
    "prompt": {"query": {"min": 256, "step": 256, "max": 256}},
    "decode": {"batchSize": {"min": 4, "step": 4, "max": 4}, "blocks": {"min": 64, "step": 64, "max": 64}},
}
"""As few graphs as the tiny example can serve with."""

TWO_PROMPT_BUCKETS = {**ONE_BUCKET, "prompt": {"query": {"min": 128, "step": 128, "max": 256}}}

QUICK = {"replicas": 1, "bucketing": ONE_BUCKET, "engine": {"executionMode": "Eager"}}
"""A replica that is warm as soon as its model is loaded."""

SIMULATED = {"replicas": 1, "bucketing": ONE_BUCKET, "engine": {"name": "sim"}}
"""A replica for tests of what is around the engine: the runtime and its warm-up, without six seconds of imports."""
