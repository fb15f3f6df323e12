"""Models, as far as memory depends on them (docs/internals/memory.md): pure arithmetic.

config_json   config.json -> ModelShape (shape), by config_values (untrusted numbers), families (how each writes its
              layers) and quantization (bits of its matrices); known finds the shape of a public model by its name
tensors       the weight tensors of a shape; ranks: what one card of a group holds of them, of KV blocks, and to work
validated     which models are published as validated on Gaudi
"""
