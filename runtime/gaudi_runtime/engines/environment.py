"""The environment of the process that an engine runs in."""

import os
from collections.abc import MutableMapping

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.knobs.render import render


def tell_environment(config: RuntimeConfig, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the engine's variables (docs/knobs.md, Rendering); call it before the engine's libraries are imported.

    A variable that the container has already stays: there the operator has rendered the same, or a user knows better.
    Raises ConfigError naming every wrong setting.
    """
    for name, value in render(config).env.items():
        environment.setdefault(name, value)
    if key := environment.get(API_KEY_VARIABLE):
        # A Secret made from a file often ends in a line end, which vLLM would ask of every request.
        environment[API_KEY_VARIABLE] = key.strip()
