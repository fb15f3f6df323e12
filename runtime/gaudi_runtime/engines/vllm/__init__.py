"""Driving vLLM bucket by bucket (docs/vllm.md): our own process beside vLLM's, and its workers inside them."""
