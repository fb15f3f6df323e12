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

    def with_defaults(self, defaults: Mapping[str, Any], renamed: Mapping[str, str]) -> "ConfigValues":
        """Return these values with other names for some keys, and with defaults for missing keys."""
        return ConfigValues({**defaults, **{renamed.get(key, key): value for key, value in self._config.items()}})

    def replaced(self, **values: int) -> "ConfigValues":
        """Return these values with some values replaced."""
        return ConfigValues({**self._config, **values})

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

    def first_integer(self, *keys: str, default: int = 0) -> int:
        """Return the whole number of the first of these keys that is there. A list counts as its first item."""
        key = next(filter(self.__contains__, keys), None)
        if key is None:
            return default
        value = self._config[key]
        number = value[0] if isinstance(value, list) and value else value
        # JSON may write a whole number with a fraction: "factor": 4.0.
        whole = int(number) if isinstance(number, float) and number.is_integer() else number
        return ConfigValues({key: whole}).integer(key, low=0)

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

    def nested_object(self, key: str) -> "ConfigValues | None":
        """Return a nested object, or None if the key is missing. Raises ModelUnreadable for any other value."""
        value = self._config.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ModelUnreadable(f"config.json: {key} must be an object")
        return ConfigValues(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, empty if the key is missing. Raises ModelUnreadable for any other value."""
        value = self._config.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ModelUnreadable(f"config.json: {key} must be a list of strings")
        return tuple(value)
