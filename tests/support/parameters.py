"""The number of parameters of a model, to compare shapes with what publishers state."""

from collections import Counter

from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.models.tensors import embedding_tensor, final_norm_tensor, layer_tensors, output_head_tensor


def count_parameters(shape: ModelShape) -> int:
    """Count all parameters of a checkpoint in the same way as its publisher (docs/internals/warmup.md, Shapes)."""
    # A tied output head is not counted, because it is the same tensor as the embeddings.
    other_tensors = [
        embedding_tensor(shape),
        final_norm_tensor(shape),
        *([] if shape.tied_embeddings else [output_head_tensor(shape)]),
    ]
    layer_parameters = sum(
        count * sum(tensor.parameter_count for tensor in layer_tensors(layer, shape.hidden))
        for layer, count in Counter(shape.layers).items()
    )
    return shape.extra_parameters + layer_parameters + sum(tensor.parameter_count for tensor in other_tensors)
