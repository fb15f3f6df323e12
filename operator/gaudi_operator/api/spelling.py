"""How a resource spells the words of a RuntimeConfig: with a capital letter, as Kubernetes spells its own values.

A RuntimeConfig, bare limits of `gaudi-plan` and Python spell them with a small letter. Enums of the API alone have the
spelling of the resource in Python too, and need nothing from here.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from gaudi_runtime.contract.base import as_in_spec


@dataclass(frozen=True)
class OwnWord:
    """Marks, for Annotated, a field of a resource whose values are words of a RuntimeConfig.

    `without` are the words that no resource may have.
    """

    without: tuple[StrEnum, ...] = ()

    def __get_pydantic_core_schema__(self, source: type[StrEnum], _: GetCoreSchemaHandler) -> CoreSchema:
        words = {as_in_spec(word): word for word in source if word not in self.without}
        spelled = core_schema.no_info_before_validator_function(_spelled, core_schema.literal_schema([*words]))
        return core_schema.no_info_after_validator_function(
            words.__getitem__,
            spelled,
            # Only in JSON, which is what people read and what a ControllerRevision keeps.
            serialization=core_schema.plain_serializer_function_ser_schema(as_in_spec, when_used="json"),
        )


def says(field: str, *words: StrEnum) -> str:
    """CEL: whether the field at this path below self has one of `words`; false if it is left out.

    The API server fills in none of these fields, so the field and its section may be absent.
    """
    return f"(self.?{field.replace('.', '.?')}.orValue('') in {[as_in_spec(word) for word in words]})"


def _spelled(given: Any) -> Any:
    """Return the spelling of a member of the enum, which Python code passes; every other value as it is."""
    return as_in_spec(given) if isinstance(given, StrEnum) else given
