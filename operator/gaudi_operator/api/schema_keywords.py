"""Keywords of Kubernetes in the schema of API types: CEL rules, list maps, blocks, and defaults of the operator.

structural_schema.py makes the structural schema of a model from them.

A block is a value of a Kubernetes type that the operator copies into its children. The schema declares only the fields
of a block that the operator or server-side apply reads. The API server validates the others when a child is written.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict


class SchemaRule(BaseModel):
    """A CEL rule, for the schema keyword `x-kubernetes-validations`.

    The API server rejects an object that violates the rule, with `message`.

    With `before`, `oldSelf` is an optional that is empty when an object is created. The rule can then apply to new
    objects and exempt objects that are older than the rule.
    """

    rule: str
    message: str
    before: bool = False

    def to_keyword_entry(self) -> JsonDict:
        """Return the rule as an entry of the keyword."""
        entry: JsonDict = {"rule": self.rule, "message": self.message}
        return entry | {"optionalOldSelf": True} if self.before else entry


def rules_keyword(*rules: SchemaRule) -> JsonDict:
    """Return the schema keywords that make the API server check `rules`, for `json_schema_extra` of a field."""
    return {"x-kubernetes-validations": [rule.to_keyword_entry() for rule in rules]}


MEANT_WHEN_LEFT_OUT = "x-meant-when-left-out"
"""The keyword of a default that the operator fills in instead of the API server. No published schema contains it."""


def replace_default_keyword(schema: JsonDict) -> None:
    """Replace the schema keyword `default` of a field by MEANT_WHEN_LEFT_OUT, for `json_schema_extra`.

    The API server would write the default into every resource, and an operator of another release may reject it.
    """
    schema[MEANT_WHEN_LEFT_OUT] = schema.pop("default")


def list_map_keywords(*keys: str) -> JsonDict:
    """Return the schema keywords of a list whose entries server-side apply merges by `keys`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


PRESERVE = "x-kubernetes-preserve-unknown-fields"

Block = Annotated[dict[str, Any], Field(json_schema_extra={PRESERVE: True})]
"""A block without declared fields."""


def block_schema_config(*rules: SchemaRule) -> ConfigDict:
    """Return the model configuration of a block with declared fields and CEL rules."""
    return ConfigDict(extra="allow", json_schema_extra={PRESERVE: True, **(rules_keyword(*rules) if rules else {})})


def schema_config_with_rules(*rules: SchemaRule) -> ConfigDict:
    """Return the model configuration that adds CEL rules to a model. In the rules, `self` is the object."""
    return ConfigDict(json_schema_extra=rules_keyword(*rules))
