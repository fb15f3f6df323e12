"""The numbers of an untrusted config.json, each within bounds, each error a sentence."""

from collections.abc import Mapping
from typing import Any

from gaudi_runtime.errors import ModelUnreadable

# No dimension of a model is larger; a wrong number must not become a wrong allocation or an endless loop.
MOST = 2**24


class ConfigValues:
    """Typed access to the keys of a config.json."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        # null counts as missing, as transformers reads it.
        self._config = {key: value for key, value in config.items() if value is not None}

    def __contains__(self, key: str) -> bool:
        return key in self._config

    def whole(self, key: str, default: int | None = None, *, least: int = 1, most: int = MOST) -> int:
        """Return a whole number from `least` to `most`. Raises ModelUnreadable if it is missing without a default."""
        value = self._config.get(key, default)
        if value is None:
            raise ModelUnreadable(f"config.json has no {key}; its memory cannot be calculated without it")
        # JSON's true is an int to Python.
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ModelUnreadable(f"config.json: {key} is {value!r}, not a whole number from {least} to {most}")
        return value

    def maybe_whole(self, key: str) -> int | None:
        """Return a whole number; None if it is missing."""
        return self.whole(key) if key in self else None

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false. Raises ModelUnreadable for anything else."""
        value = self._config.get(key, default)
        if not isinstance(value, bool):
            raise ModelUnreadable(f"config.json: {key} is {value!r}, neither true nor false")
        return value

    def text(self, key: str, default: str) -> str:
        """Return a string. Raises ModelUnreadable for anything else."""
        value = self._config.get(key, default)
        if not isinstance(value, str):
            raise ModelUnreadable(f"config.json: {key} is {value!r}, not a text")
        return value

    def wholes(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers; empty if it is missing. Raises ModelUnreadable for anything else."""
        value = self._config.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            raise ModelUnreadable(f"config.json: {key} is not a list of whole numbers")
        return tuple(value)

    def part(self, key: str) -> "ConfigValues | None":
        """Return an object inside this one; None if it is missing. Raises ModelUnreadable for anything else."""
        value = self._config.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ModelUnreadable(f"config.json: {key} is not an object")
        return ConfigValues(value)

    def parts(self) -> "tuple[ConfigValues, ...]":
        """Return every object inside this one."""
        return tuple(ConfigValues(value) for value in self._config.values() if isinstance(value, dict))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if it is missing. Raises ModelUnreadable for anything else."""
        value = self._config.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ModelUnreadable(f"config.json: {key} is not a list of texts")
        return tuple(value)
