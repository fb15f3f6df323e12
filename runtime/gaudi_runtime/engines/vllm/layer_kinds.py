"""The kinds of layers of the model, from its config.json."""

from gaudi_runtime.catalog.layer_types import LayerKinds, find_layer_kinds

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""The names of the number of routed experts in the configurations of transformers."""


def read_layer_kinds(folder: str) -> LayerKinds:
    """Return the kinds of layers in the config.json in this folder; none if transformers cannot read the file."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder).get_text_config()
    except (OSError, ValueError):
        return LayerKinds()  # vLLM rejects the model, or has its own code for this model
    experts = max(int(getattr(config, name, None) or 0) for name in EXPERTS)
    return find_layer_kinds(config.model_type, getattr(config, "layer_types", None) or (), experts)
