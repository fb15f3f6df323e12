"""The properties of models that memory depends on (docs/internals/warmup.md): pure arithmetic.

config_json    converts config.json to a ModelShape; config_values checks that numbers are within bounds
shape          ModelShape: the layers of a model
layers         the readers of a layer, one for each kind of KV cache
rank_memory    the memory of one card of a group: weights, KV blocks, working memory
known          the shape of a public model by its name
validated      the models that are published as validated on Gaudi
"""
