"""Public models by repository name, so that a forecast needs no checkpoint.

known_models.json contains, for each repository, the length of its longest sequence, the bytes of its weight files, and
the keys of its config.json that memory depends on. `listed` marks bytes that were read in a published index of weight
files. The others are estimates by the number of parameters. A test compares all of them with the keys.
"""

import json
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from gaudi_runtime.catalog.models.config_json import read_config
from gaudi_runtime.catalog.models.shape import ModelShape


@lru_cache(maxsize=1)
def known_models() -> dict[str, dict[str, Any]]:
    """Return the known models by lower-case repository name, as {"repository", "length", "bytes", "config"}."""
    text = files("gaudi_runtime.catalog.models").joinpath("known_models.json").read_text(encoding="utf-8")
    entries = json.loads(text)["models"]
    return {
        repository.lower(): {**entry, "repository": repository, "length": length}
        for entry in entries
        for repository, length in entry["repositories"].items()
    }


@lru_cache(maxsize=1)
def _models_by_short_name() -> dict[str, dict[str, Any]]:
    """Return the known models by repository name without owner, such as llama-3.1-8b."""
    return {repository.partition("/")[2]: entry for repository, entry in known_models().items()}


@lru_cache(maxsize=256)
def known_shape(repository: str) -> ModelShape | None:
    """Return the shape of a known public model, or None if the model is unknown.

    `repository` may have an owner or not.
    """
    entry = known_models().get(repository.lower()) or _models_by_short_name().get(repository.lower())
    if entry is None:
        return None
    return replace(
        read_config(entry["config"]),
        name=entry["repository"],
        file_bytes=entry["bytes"],
        is_listed=entry.get("listed", False),
        max_length=entry["length"],
    )
