"""The base of every model that is sent as JSON: snake_case in Python, camelCase in JSON."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """A frozen value that rejects unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",  # a misspelt name must not be ignored silently
        frozen=True,
        populate_by_name=True,
        allow_inf_nan=False,  # JSON has no infinity or NaN, and NaN passes every comparison
    )


class TolerantModel(WireModel):
    """A value that another release may have written. Unknown fields are ignored instead of rejected."""

    model_config = ConfigDict(extra="ignore")


def capitalize_contract_word(word: str) -> str:
    """Return a word of the contract's JSON with a capital letter, as in the spec of a Kubernetes resource."""
    return word[:1].upper() + word[1:]
