"""Parameter counts of vision towers, which are outside the decoder (docs/internals/warmup.md, Shapes).

Each count is computed from the keys of `vision_config`, and includes the projection into the decoder. The defaults are
the defaults of the configuration classes in transformers 5.
"""

from collections.abc import Callable, Mapping

from gaudi_runtime.catalog.models.config_values import ConfigValues
from gaudi_runtime.errors import UnsupportedModel

MAX_TOWER_LAYERS = 1024
COLOURS = 3


def count_vision_parameters(config: ConfigValues, text_hidden: int) -> int:
    """Return the parameters of the vision tower and its projection into a decoder of `text_hidden`; 0 without a tower.

    Raises UnsupportedModel for a tower that is not in TOWERS.
    """
    tower = config.nested_object("vision_config")
    if tower is None:
        return 0
    # The `vision_config` of Qwen 2.5 VL may lack the type of the tower. The model's own `model_type` then names the
    # type.
    kind = tower.text("model_type", config.text("model_type", ""))
    if kind not in TOWERS:
        raise UnsupportedModel(
            f"config.json has vision tower {kind!r}, but memory can only be calculated for {', '.join(sorted(TOWERS))}"
        )
    return TOWERS[kind](tower, text_hidden)


def _count_linear(inputs: int, outputs: int) -> int:
    """Count the parameters of a matrix and its bias."""
    return inputs * outputs + outputs


def _count_attention(hidden: int) -> int:
    """Count the parameters of the query, key, value and output matrices, each with a bias."""
    return 4 * _count_linear(hidden, hidden)


def count_siglip(tower: ConfigValues, text_hidden: int) -> int:
    """Count SigLIP (Gemma 3): patch and position embeddings, layers with 2 norms, a final norm, a projection."""
    hidden, intermediate = tower.integer("hidden_size"), tower.integer("intermediate_size")
    layer_count = tower.integer("num_hidden_layers", high=MAX_TOWER_LAYERS)
    layer_parameters = (
        _count_attention(hidden)
        + _count_linear(hidden, intermediate)
        + _count_linear(intermediate, hidden)
        + 4 * hidden
    )
    patch_size = tower.integer("patch_size")
    patches = (tower.integer("image_size") // patch_size) ** 2
    other_parameters = _count_linear(COLOURS * patch_size * patch_size, hidden) + patches * hidden + 2 * hidden
    return layer_count * layer_parameters + other_parameters + hidden * text_hidden + hidden


def count_qwen2_5(tower: ConfigValues, text_hidden: int) -> int:
    """Count Qwen 2.5 VL: gated layers with RMS norms, and a merger that joins `spatial_merge_size` squared patches."""
    hidden, intermediate = tower.integer("hidden_size", 1280), tower.integer("intermediate_size", 3420)
    mlp_parameters = 2 * _count_linear(hidden, intermediate) + _count_linear(intermediate, hidden)
    layer_parameters = _count_attention(hidden) + mlp_parameters + 2 * hidden
    patch = COLOURS * tower.integer("temporal_patch_size", 2) * tower.integer("patch_size", 14) ** 2
    merged = hidden * tower.integer("spatial_merge_size", 2) ** 2
    merger_parameters = (
        hidden + _count_linear(merged, merged) + _count_linear(merged, tower.integer("out_hidden_size", text_hidden))
    )
    return patch * hidden + tower.integer("depth", 32, high=MAX_TOWER_LAYERS) * layer_parameters + merger_parameters


def count_qwen3(tower: ConfigValues, text_hidden: int) -> int:
    """Count Qwen 3 VL: layer norms, learned positions, and another merger for each layer that the decoder reads."""
    hidden, intermediate = tower.integer("hidden_size", 1152), tower.integer("intermediate_size", 4304)
    layer = (
        _count_attention(hidden)
        + _count_linear(hidden, intermediate)
        + _count_linear(intermediate, hidden)
        + 4 * hidden
    )
    patch = COLOURS * tower.integer("temporal_patch_size", 2) * tower.integer("patch_size", 16) ** 2
    embeddings = _count_linear(patch, hidden) + tower.integer("num_position_embeddings", 2304) * hidden
    merged = hidden * tower.integer("spatial_merge_size", 2) ** 2
    merger = _count_linear(merged, merged) + _count_linear(merged, tower.integer("out_hidden_size", text_hidden))
    # Mergers of inner layers apply their norm after the patches are joined. The last merger applies its norm before.
    inner_mergers = len(tower.integers("deepstack_visual_indexes")) * (merger + 2 * merged)
    return embeddings + tower.integer("depth", 27, high=MAX_TOWER_LAYERS) * layer + merger + 2 * hidden + inner_mergers


Tower = Callable[[ConfigValues, int], int]

TOWERS: Mapping[str, Tower] = {
    "siglip_vision_model": count_siglip,
    "qwen2_5_vl": count_qwen2_5,
    "qwen3_vl": count_qwen3,
    "qwen3_vl_moe": count_qwen3,
}
"""The towers by the model_type of `vision_config`, or by that of the model if `vision_config` has none."""
