"""Driving vLLM bucket by bucket: so far a worker's side on a Gaudi card (docs/vllm.md). Nothing here imports vllm."""
