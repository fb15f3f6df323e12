"""The values of an untrusted config.json. Each number must be within bounds; errors are full sentences."""

from collections.abc import Mapping
from typing import Any

from gaudi_runtime.errors import ModelUnreadable

# No dimension of a model is larger than this. The limit prevents huge allocations and endless loops if a config.json is
# wrong.
MOST = 2**24


class ConfigValues:
    """Typed access to the keys of a config.json."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        # A key with the value `null` counts as missing, as in transformers.
        self._config = {key: value for key, value in config.items() if value is not None}

    def __contains__(self, key: str) -> bool:
        return key in self._config

    def integer(self, key: str, default: int | None = None, *, low: int = 1, high: int = MOST) -> int:
        """Return a whole number from `low` to `high`. Raises ModelUnreadable for a missing key without a default."""
        value = self._config.get(key, default)
        if value is None:
            raise ModelUnreadable(f"config.json has no {key}, so the memory of the model cannot be calculated")
        # `bool` is rejected explicitly, because in Python `True` is also an `int`.
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ModelUnreadable(f"config.json: {key} is {value!r}, but must be a whole number from {low} to {high}")
        return value

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number. Return None if the key is missing."""
        return self.integer(key) if key in self else None

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean. Raises ModelUnreadable for any other value."""
        value = self._config.get(key, default)
        if not isinstance(value, bool):
            raise ModelUnreadable(f"config.json: {key} is {value!r}, but must be true or false")
        return value

    def text(self, key: str, default: str) -> str:
        """Return a string. Raises ModelUnreadable for any other value."""
        value = self._config.get(key, default)
        if not isinstance(value, str):
            raise ModelUnreadable(f"config.json: {key} is {value!r}, but must be a string")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers, empty if the key is missing. Raises ModelUnreadable for any other value."""
        value = self._config.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            raise ModelUnreadable(f"config.json: {key} must be a list of whole numbers")
        return tuple(value)

    def nested_object(self, key: str) -> "ConfigValues | None":
        """Return a nested object, or None if the key is missing. Raises ModelUnreadable for any other value."""
        value = self._config.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ModelUnreadable(f"config.json: {key} must be an object")
        return ConfigValues(value)

    def nested_objects(self) -> "tuple[ConfigValues, ...]":
        """Return all nested objects of this object."""
        return tuple(ConfigValues(value) for value in self._config.values() if isinstance(value, dict))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty if the key is missing. Raises ModelUnreadable for any other value."""
        value = self._config.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ModelUnreadable(f"config.json: {key} must be a list of strings")
        return tuple(value)
