"""The built-in engine: transformers models, paged KV cache, continuous batching, one static graph per bucket."""
