"""How our own words are spelled as values of fields: with a capital letter, as Kubernetes spells its own.

Release 0.1.0 spelled them with a small one. Both are read until release 0.3 and mean the same
(docs/reference/api-policy.md). That is a matter of the resource alone: words that a RuntimeConfig has too keep their
form there, in the inputs of revisions and in Python. So no spelling makes a revision, and what is stored can be read by
the releases before.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from gaudi_runtime.contract.base import as_in_spec

Json = dict[str, Any]

FORMER_VALUES = "x-former-values"
"""Marks the values of an enum that are read for one release more; no schema that leaves us has it."""


@dataclass(frozen=True)
class OwnWord:
    """Marks, for Annotated, a field of words that release 0.1.0 or a RuntimeConfig spells with a small letter.

    `without` are those that no resource may say. The values of a new enum of the API alone need no mark.
    """

    without: tuple[StrEnum, ...] = ()

    def __get_pydantic_core_schema__(self, source: type[StrEnum], _: GetCoreSchemaHandler) -> CoreSchema:
        words = {as_in_spec(word): word for word in source if word not in self.without}
        present = core_schema.no_info_before_validator_function(_present, core_schema.literal_schema([*words]))
        return core_schema.no_info_after_validator_function(
            words.__getitem__,
            present,
            # In JSON alone, which is what people write and read.
            serialization=core_schema.plain_serializer_function_ser_schema(as_in_spec, when_used="json"),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        found = handler(schema)
        return {**found, FORMER_VALUES: [_former(word) for word in found["enum"]]}


def says(field: str, *words: StrEnum) -> str:
    """CEL: whether the field at this path below self has one of `words` in either spelling; false where it is left out.

    The API server fills none of them in, so the field and its section may be absent.
    """
    values = [each for word in map(as_in_spec, words) for each in (word, _former(word))]
    return f"(self.?{field.replace('.', '.?')}.orValue('') in {values})"


def present_values(values: list[str]) -> list[str]:
    """The values of an enum without the former spellings that it also has."""
    return [each for each in values if as_in_spec(each) == each or as_in_spec(each) not in values]


def _present(given: object) -> object:
    return as_in_spec(given) if isinstance(given, str) else given


def _former(word: str) -> str:
    return word[:1].lower() + word[1:]
