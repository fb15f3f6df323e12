"""How a deployment's engine is started: its variables and arguments, as one would type them."""

import shlex
from collections.abc import Iterator
from typing import Any

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.knobs.render import Rendered, render


def launch_data(config: RuntimeConfig | None) -> dict[str, Any] | None:
    """Variables and arguments for programs; None where only bare limits are known. Raises ConfigError."""
    if config is None:
        return None
    rendered = render(config)
    return {"environment": rendered.env, "arguments": rendered.args}


def launch_lines(config: RuntimeConfig | None) -> Iterator[str]:
    """The command in lines for a shell; nothing where the engine is told nothing. Raises ConfigError."""
    if config is None:
        return
    parts = [*_variables(render(config)), *_command(config)]
    if parts:
        yield "started with:"
        yield " \\\n".join(f"  {part}" for part in parts)


def _variables(rendered: Rendered) -> Iterator[str]:
    return (f"{name}={shlex.quote(value)}" for name, value in rendered.env.items())


def _command(config: RuntimeConfig) -> Iterator[str]:
    """The runtime makes vLLM itself, with workers of its own, so this is what `vllm serve` would be given."""
    if config.engine.name is not EngineName.VLLM:
        return
    yield "vllm serve"
    words: list[str] = []
    for word in render(config).args:
        if word.startswith("--") and words:
            yield shlex.join(words)
            words = []
        words.append(word)
    yield shlex.join(words)
