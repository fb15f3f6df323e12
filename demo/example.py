"""The example of the demo, and the change that its upgrade makes."""

from pathlib import Path

EXAMPLE = "tiny-vllm-cpu"
MODEL = "tiny"
"""The name of the model in requests."""
MANIFEST = Path(__file__).resolve().parent.parent / "examples" / f"{EXAMPLE}.yaml"
SHORT_PROMPTS = {"bucketing": {"prompt": {"query": {"min": 32}}}}
"""A merge patch of the spec: another prompt bucket, for prompts of up to 32 tokens."""
