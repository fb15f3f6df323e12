"""Choose the engine by name, importing only that one: torch and vllm take seconds and gigabytes."""

import asyncio

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.engines.environment import tell_environment
from gaudi_runtime.engines.protocol import Engine, OwnMemory, PodPart
from gaudi_runtime.errors import EngineUnsupported


def select_engine(config: RuntimeConfig, loop: asyncio.AbstractEventLoop | None = None) -> Engine:
    """The engine that the configuration names. Raises a RuntimeStartError; call it off the event loop.

    `loop` is the one that serves; engine vllm cannot do without.
    """
    tell_environment(config)
    match config.engine.name:
        case EngineName.TORCH:
            from gaudi_runtime.engines.torch.engine import TorchEngine

            return TorchEngine(config)
        case EngineName.SIM:
            from gaudi_runtime.engines.sim.engine import SimEngine

            return SimEngine(config)
        case EngineName.VLLM:
            from gaudi_runtime.engines.vllm.engine import VllmEngine

            if loop is None:
                raise ValueError("engine vllm needs the event loop that serves")
            return VllmEngine(config, loop)


def select_rank(config: RuntimeConfig, rank: int) -> OwnMemory | PodPart:
    """What pod `rank`, above 0, of a group does of that engine. Raises a RuntimeStartError."""
    tell_environment(config)
    match config.engine.name:
        case EngineName.SIM:
            from gaudi_runtime.engines.sim.engine import SimEngine

            return SimEngine(config, rank=rank)
        case EngineName.VLLM:
            from gaudi_runtime.engines.vllm.engine import VllmPodPart

            return VllmPodPart(config, rank)
        case EngineName.TORCH:
            raise EngineUnsupported("Engine torch has one rank: set parallelism.nodes to 1, or use engine vllm.")
