"""Selects the engine by name and imports only this engine, because vllm takes seconds and gigabytes."""

import asyncio
import logging
import os
from collections.abc import MutableMapping
from pathlib import Path

from gaudi_runtime.catalog.layer_types import adjust_limits_to_layers
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.engine_protocol.engine import Engine
from gaudi_runtime.engine_protocol.group import PodPart, Rank
from gaudi_runtime.errors import ModelNotFound
from gaudi_runtime.knobs.render import render_engine_options

log = logging.getLogger(__name__)

CONTIGUOUS = "VLLM_CONTIGUOUS_PA"


def adjust_to_model(config: RuntimeConfig) -> RuntimeConfig:
    """Return the configuration with the limits that the layers of the fetched model need on a card.

    Raises ModelNotFound if there is no such folder, and ConfigError like `set_environment`.
    """
    if config.engine.name is not EngineName.VLLM:
        return config
    # vLLM would take the path for the name of a repository, and its error would not name the field.
    if not Path(config.model.path).is_dir():
        raise ModelNotFound(f"Folder {config.model.path} does not exist. Check the path in spec.model.source.")
    if config.engine.device == "cpu":
        return config
    set_environment(config)  # before the libraries are imported that read the configuration of the model
    from gaudi_runtime.engines.vllm.layer_kinds import read_layer_kinds

    kinds = read_layer_kinds(config.model.path)
    limits = adjust_limits_to_layers(config.limits, kinds, config.parallelism.data)
    if limits.contiguous_paged_attention != config.limits.contiguous_paged_attention:
        log.info("Contiguous paged attention is off, because this model has layers of several kinds.")
    config = config.model_copy(update={"limits": limits})
    # The operator does not know the layers of a model, so the container has the value for most models.
    os.environ[CONTIGUOUS] = render_engine_options(config).env[CONTIGUOUS]
    return config


def create_engine(config: RuntimeConfig, loop: asyncio.AbstractEventLoop | None = None) -> Engine:
    """Create the configured engine. Raises a RuntimeStartError. Do not call this function on the event loop.

    `loop` is the event loop that serves requests. The vllm engine requires it.
    """
    set_environment(config)
    match config.engine.name:
        case EngineName.SIM if config.parallelism.nodes > 1:
            from gaudi_runtime.engines.sim.group import SimLeader

            return SimLeader(config)
        case EngineName.SIM:
            from gaudi_runtime.engines.sim.engine import SimEngine

            return SimEngine(config)
        case EngineName.VLLM:
            from gaudi_runtime.engines.vllm.engine import VllmEngine

            if loop is None:
                raise ValueError("engine vllm needs the event loop that serves requests")
            return VllmEngine(config, loop)


def create_rank(config: RuntimeConfig, rank: int) -> Rank | PodPart:
    """Create the engine's part for the pod `rank` of a group; `rank` is above 0. Raises a RuntimeStartError."""
    config = adjust_to_model(config)
    set_environment(config)
    match config.engine.name:
        case EngineName.SIM:
            from gaudi_runtime.engines.sim.group import SimRank

            return SimRank(config, rank=rank)
        case EngineName.VLLM:
            from gaudi_runtime.engines.vllm.pod_part import VllmPodPart

            return VllmPodPart(config, rank)


def set_environment(config: RuntimeConfig, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the environment variables of the selected engine. Raises ConfigError, which names every wrong setting.

    See docs/reference/knobs.md, Rendering.
    """
    # Set the variables before the engine's libraries are imported, because the libraries read them only once. Keep a
    # variable that the container already has: either the operator has rendered the same value, or a user has set the
    # variable.
    for name, value in render_engine_options(config).env.items():
        environment.setdefault(name, value)
    if key := environment.get(API_KEY_VARIABLE):
        # A Secret that is created from a file often ends in a line break. vLLM would treat the line break as part of
        # the key and reject every request without it.
        environment[API_KEY_VARIABLE] = key.strip()
