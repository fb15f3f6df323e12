"""Selects the engine by name and imports only this engine, because vllm takes seconds and gigabytes."""

import asyncio
import os
from collections.abc import MutableMapping

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.engine_protocol.engine import Engine
from gaudi_runtime.engine_protocol.group import PodPart, Rank
from gaudi_runtime.knobs.render import render_engine_options


def create_engine(config: RuntimeConfig, loop: asyncio.AbstractEventLoop | None = None) -> Engine:
    """Create the configured engine. Raises a RuntimeStartError. Do not call this function on the event loop.

    `loop` is the event loop that serves requests. The vllm engine requires it.
    """
    set_engine_environment(config)
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


def create_engine_rank(config: RuntimeConfig, rank: int) -> Rank | PodPart:
    """Create the engine's part for the pod `rank` of a group; `rank` is above 0. Raises a RuntimeStartError."""
    set_engine_environment(config)
    match config.engine.name:
        case EngineName.SIM:
            from gaudi_runtime.engines.sim.group import SimRank

            return SimRank(config, rank=rank)
        case EngineName.VLLM:
            from gaudi_runtime.engines.vllm.pod_part import VllmPodPart

            return VllmPodPart(config, rank)


def set_engine_environment(config: RuntimeConfig, environment: MutableMapping[str, str] = os.environ) -> None:
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
