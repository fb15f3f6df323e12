"""The spelling of enumerations of the runtime contract in a resource: UpperCamelCase, as in Kubernetes.

A RuntimeConfig and Python use lowerCamelCase. Enumerations that only the API has are UpperCamelCase in Python too, and
do not need this module.
"""

from enum import StrEnum
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from gaudi_runtime.contract.base import capitalize_contract_word


class ContractEnumSpelling:
    """Annotation of a field whose values are members of an enumeration of the runtime contract."""

    def __get_pydantic_core_schema__(self, source: type[StrEnum], _: GetCoreSchemaHandler) -> CoreSchema:
        members_by_spelling = {capitalize_contract_word(member): member for member in source}
        schema = core_schema.no_info_before_validator_function(
            _to_spec_spelling, core_schema.literal_schema([*members_by_spelling])
        )
        return core_schema.no_info_after_validator_function(
            members_by_spelling.__getitem__,
            schema,
            # Serialize as in the spec only for JSON, because resources and ControllerRevisions are stored as JSON.
            serialization=core_schema.plain_serializer_function_ser_schema(capitalize_contract_word, when_used="json"),
        )


def cel_is_one_of_spellings(field: str, *members: StrEnum) -> str:
    """Return CEL that compares a field of `self` with `members` as spelled in resources; false if unset.

    The API server does not fill in these fields, so the field and its section may be absent.
    """
    return (
        f"(self.?{field.replace('.', '.?')}.orValue('') in {[capitalize_contract_word(member) for member in members]})"
    )


def _to_spec_spelling(value: Any) -> Any:
    """Return the spelling of a member of the enumeration, and every other value unchanged."""
    return capitalize_contract_word(value) if isinstance(value, StrEnum) else value
