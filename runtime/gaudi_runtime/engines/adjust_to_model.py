"""The settings that depend on the layers of the fetched model, which the operator does not know."""

import logging
import os
from pathlib import Path

from gaudi_runtime.catalog.layer_types import adjust_limits_to_layers, refused_settings
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.engines.create_engine import set_engine_environment
from gaudi_runtime.errors import ConfigError, ModelNotFound
from gaudi_runtime.knobs.render import render_engine_options

log = logging.getLogger(__name__)

CONTIGUOUS = "VLLM_CONTIGUOUS_PA"


def adjust_to_model(config: RuntimeConfig) -> RuntimeConfig:
    """Return the configuration with the limits that the layers of the fetched model need on a card.

    Raises ModelNotFound if there is no such folder, and ConfigError for settings that the model excludes, and like
    `set_engine_environment`.
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
    from gaudi_runtime.engines.vllm.versions import read_installed_releases

    kinds = read_layer_kinds(config.model.path)
    limits = adjust_limits_to_layers(config.limits, kinds, config.parallelism.data)
    caches_states = read_installed_releases(uses_cards=True).caches_states
    if sentences := " ".join(refused_settings(kinds, limits, caches_states=caches_states)):
        raise ConfigError(sentences)
    adjusted = config.model_copy(update={"limits": limits})
    if limits.contiguous_paged_attention != config.limits.contiguous_paged_attention:
        log.info("Contiguous paged attention is off, because this model has layers of several kinds.")
        # The operator does not know the layers of a model, so the container has the value for most models.
        os.environ[CONTIGUOUS] = render_engine_options(adjusted).env[CONTIGUOUS]
    return adjusted
