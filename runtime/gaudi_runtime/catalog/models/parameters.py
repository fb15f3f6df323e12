"""How many parameters a model has: the number that its publisher prints (docs/memory.md, Shapes)."""

from collections import Counter

from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.models.tensors import embedding, final_norm, head, layer_tensors


def parameters(shape: ModelShape) -> int:
    """All parameters of the checkpoint; a tied output head counts once."""
    outside = [embedding(shape), final_norm(shape), *([] if shape.tied_embeddings else [head(shape)])]
    layers = sum(
        count * sum(tensor.parameters for tensor in layer_tensors(layer, shape.hidden))
        for layer, count in Counter(shape.layers).items()
    )
    return shape.extra_parameters + layers + sum(tensor.parameters for tensor in outside)
