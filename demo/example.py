"""The example of the demo, and the change that its upgrade makes."""

from pathlib import Path

EXAMPLE = "tiny-torch-cpu"
MANIFEST = Path(__file__).resolve().parent.parent / "examples" / f"{EXAMPLE}.yaml"
FINER_BUCKETS = {"bucketing": {"prompt": {"query": {"min": 32, "step": 32}}}}
"""A merge patch of the spec: prompt buckets every 32 tokens instead of every 64 tokens."""
