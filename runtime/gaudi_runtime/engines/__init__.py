"""The engines, which implement engine_protocol/. Only this package imports torch, transformers or vllm."""
