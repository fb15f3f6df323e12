"""The vision tower of a multimodal checkpoint: parameters outside the decoder that a server loads all the same."""

from gaudi_runtime.catalog.models.facts import Facts
from gaudi_runtime.errors import UnsupportedModel


def vision_parameters(outer: Facts, text_hidden: int) -> int:
    """Parameters of a SigLIP tower and of the projection into the decoder; 0 without a tower.

    Raises UnsupportedModel for a tower of another kind.
    """
    tower = outer.part("vision_config")
    if tower is None:
        return 0
    kind = tower.text("model_type", "")
    if kind != "siglip_vision_model":
        raise UnsupportedModel(f"config.json has a vision tower {kind!r}; memory is calculated for SigLIP only")
    hidden = tower.whole("hidden_size")
    projection = hidden * text_hidden + hidden
    layers = tower.whole("num_hidden_layers", most=1024) * _layer(hidden, tower.whole("intermediate_size"))
    return layers + _ends(hidden, tower.whole("image_size"), tower.whole("patch_size")) + projection


def _layer(hidden: int, intermediate: int) -> int:
    attention = 4 * (hidden * hidden + hidden)
    mlp = hidden * intermediate + intermediate + intermediate * hidden + hidden
    return attention + mlp + 4 * hidden


def _ends(hidden: int, image: int, patch: int) -> int:
    """Patch and position embeddings, and the last norm."""
    patches = (image // patch) ** 2
    return 3 * patch * patch * hidden + hidden + patches * hidden + 2 * hidden
