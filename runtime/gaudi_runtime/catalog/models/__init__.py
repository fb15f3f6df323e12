"""Models, as far as memory depends on them (docs/internals/memory.md): pure arithmetic.

config_json    config.json -> ModelShape, with config_values (its numbers, each within bounds)
shape          ModelShape: the layers of a model
families       how each family of models writes its layers in config.json
quantization   the bits of the matrices
vision         the parameters of the vision tower
tensors        the weight tensors of a shape
rank_memory    what one card of a group holds: weights, KV blocks, working memory
known          the shape of a public model by its name
validated      which models are published as validated on Gaudi
"""
