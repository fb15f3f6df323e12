"""Read the RuntimeConfig that the operator mounts."""

import json
from pathlib import Path

from pydantic import ValidationError

from gaudi_runtime.contract.config import RuntimeConfig, ServingConfig
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.render import why_not_rendered


def read_config(path: Path) -> RuntimeConfig:
    """The configuration in `path`, JSON in camelCase. Raises ConfigError that names every wrong field or setting."""
    try:
        config = RuntimeConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{path} is not a RuntimeConfig: {wrong}.") from error
    wrong_settings = why_not_rendered(config.engine)
    if wrong_settings:
        raise ConfigError(f"{path}: {wrong_settings}.")
    return config


def ports_of_a_wrong_config(path: Path) -> ServingConfig:
    """The `serving` section if at least that is right, so that the failure is reported where it is looked for."""
    try:
        return ServingConfig.model_validate(json.loads(path.read_bytes())["serving"])
    except (OSError, ValueError, KeyError, TypeError):
        return ServingConfig()
