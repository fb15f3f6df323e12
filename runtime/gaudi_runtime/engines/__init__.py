"""The engines, which implement engine_protocol/: the only place that imports torch, transformers or vllm."""
