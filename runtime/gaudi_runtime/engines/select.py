"""Choose the engine by name, importing only that one: torch and vllm take seconds and gigabytes."""

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.engines.environment import tell_environment
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.errors import ConfigError


def select_engine(config: RuntimeConfig) -> Engine:
    """The engine that the configuration names. Raises a RuntimeStartError; call it off the event loop."""
    tell_environment(config)
    match config.engine.name:
        case EngineName.TORCH:
            from gaudi_runtime.engines.torch.engine import TorchEngine

            return TorchEngine(config)
        case EngineName.SIM:
            from gaudi_runtime.engines.sim.engine import SimEngine

            return SimEngine(config)
        case EngineName.VLLM:
            raise ConfigError("engine vllm is not built yet; use torch or sim.")
