"""The engines: the only place that may import torch, transformers or vllm."""
