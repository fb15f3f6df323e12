"""The settings that depend on the layers of the fetched model, which the operator does not know."""

import logging
import os
from pathlib import Path

from gaudi_runtime.catalog.layer_types import adjust_limits_to_layers
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.engines.create_engine import set_engine_environment
from gaudi_runtime.errors import ModelNotFound
from gaudi_runtime.knobs.render import render_engine_options

log = logging.getLogger(__name__)

CONTIGUOUS = "VLLM_CONTIGUOUS_PA"


def adjust_to_model(config: RuntimeConfig) -> RuntimeConfig:
    """Return the configuration with the limits that the layers of the fetched model need on a card.

    Raises ModelNotFound if there is no such folder, and ConfigError like `set_engine_environment`.
    """
    if config.engine.name is not EngineName.VLLM:
        return config
    # vLLM would take the path for the name of a repository, and its error would not name the field.
    if not Path(config.model.path).is_dir():
        raise ModelNotFound(f"Folder {config.model.path} does not exist. Check the path in spec.model.source.")
    if config.engine.device == "cpu":
        return config
    set_engine_environment(config)  # before the libraries are imported that read the configuration of the model
    from gaudi_runtime.engines.vllm.layer_kinds import read_layer_kinds

    kinds = read_layer_kinds(config.model.path)
    limits = adjust_limits_to_layers(config.limits, kinds, config.parallelism.data)
    if limits.contiguous_paged_attention != config.limits.contiguous_paged_attention:
        log.info("Contiguous paged attention is off, because this model has layers of several kinds.")
    config = config.model_copy(update={"limits": limits})
    # The operator does not know the layers of a model, so the container has the value for most models.
    os.environ[CONTIGUOUS] = render_engine_options(config).env[CONTIGUOUS]
    return config
