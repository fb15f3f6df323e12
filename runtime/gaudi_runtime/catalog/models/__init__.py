"""What a model's config.json says about memory: parameters, weights, KV cache, workspace (docs/memory.md)."""
