"""The kinds of layers of the model, from its config.json."""

from gaudi_runtime.catalog.layer_types import LayerKinds, find_layer_kinds
from gaudi_runtime.catalog.models.layers import EXPERT_COUNTS


def read_layer_kinds(folder: str) -> LayerKinds:
    """Return the kinds of layers in the config.json in this folder; none if transformers cannot read the file."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder).get_text_config()
    except (OSError, ValueError):
        return LayerKinds()  # vLLM rejects the model, or has its own code for this model
    experts = max(int(getattr(config, name, None) or 0) for name in EXPERT_COUNTS)
    return find_layer_kinds(config.model_type, getattr(config, "layer_types", None) or (), experts)
