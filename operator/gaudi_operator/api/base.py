"""The base of all API types, bounded leaf types, and how a CEL rule is written beside the fields it guards."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from gaudi_runtime.contract.base import Tolerant


class Rule(BaseModel):
    """A CEL rule of the schema: the API server refuses an object that breaks it, with this sentence.

    With `before`, `oldSelf` is an optional: empty while an object is created, so that the rule holds for new objects
    and can spare those that broke it before there was one.
    """

    rule: str
    message: str
    before: bool = False

    def written(self) -> JsonDict:
        """As it stands in the schema."""
        written: JsonDict = {"rule": self.rule, "message": self.message}
        return written | {"optionalOldSelf": True} if self.before else written


def rules(*rules: Rule) -> JsonDict:
    """JSON schema keywords that make the API server check `rules`; for `json_schema_extra` of a field."""
    return {"x-kubernetes-validations": [each.written() for each in rules]}


MEANT_WHEN_LEFT_OUT = "x-meant-when-left-out"
"""Marks a field whose default the operator fills in and not the API server; no schema that leaves us has it."""


def meant_when_left_out(schema: JsonDict) -> None:
    """Take the default out of the schema; for `json_schema_extra` of a field.

    The API server would write the default into every resource. An operator of another release may not know the value.
    """
    schema[MEANT_WHEN_LEFT_OUT] = schema.pop("default")


def list_map(*keys: str) -> JsonDict:
    """JSON schema keywords of a list whose entries are merged by `keys` (server-side apply)."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def validated_by(*checks: Rule) -> ConfigDict:
    """Model configuration that puts CEL rules into the schema; they see the object as `self`."""
    return ConfigDict(json_schema_extra=rules(*checks))


class ApiModel(Tolerant):
    """A part of a resource. Unknown fields are dropped: a newer CRD must not break an older operator."""


def number_as_text(value: Any) -> Any:
    """A whole number as people write it without quotes, as text; everything else as it is."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
NamespaceName = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)]
Quantity = Annotated[
    str,
    StringConstraints(min_length=1, max_length=32, pattern=QUANTITY),
    BeforeValidator(number_as_text),
    # The pattern bounds text alone: a number needs its own bound.
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0}),
]
"""An amount in Kubernetes' notation; people write whole numbers without quotes, so the wire takes both."""
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=256)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
AbsolutePath = Annotated[
    PathText,
    Field(
        json_schema_extra=rules(
            Rule(
                rule="self.startsWith('/') && !self.split('/').exists(part, part == '..')",
                message="must be an absolute path without '..': start it with '/'",
            )
        )
    ),
]
RelativePath = Annotated[
    PathText,
    Field(
        json_schema_extra=rules(
            Rule(
                rule="!self.startsWith('/') && !self.split('/').exists(part, part == '..')",
                message="must be a relative path without '..': it is looked up inside its folder",
            )
        )
    ),
]
ImageReference = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9][^\s]*$")]
Percent = Annotated[int, Field(ge=0, le=100)]
Seconds = Annotated[int, Field(ge=1, le=604_800)]
MOST_COUNT = 2**31 - 1
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=LABEL_VALUE)]
AnnotationValue = Annotated[str, StringConstraints(max_length=4096)]
KeyText = Annotated[str, StringConstraints(min_length=1, max_length=317)]
VALID_KEYS = Rule(
    rule="self.all(key, key.matches('^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))",
    message="every key must be a name like app or example.com/app",
)
Labels = Annotated[dict[KeyText, LabelValue], Field(max_length=32, json_schema_extra=rules(VALID_KEYS))]
Annotations = Annotated[dict[KeyText, AnnotationValue], Field(max_length=32, json_schema_extra=rules(VALID_KEYS))]


DataKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of the data of a Secret or a ConfigMap."""


class SecretKey(ApiModel):
    """A key of a Secret in the same namespace; the operator never reads it, only the kubelet does."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    name: ObjectName = Field(description="Name of the Secret.")
    key: DataKey = Field(description="Key inside the Secret.")


class ConfigMapKey(ApiModel):
    """A key of a ConfigMap in the same namespace."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: DataKey = Field(description="Key inside the ConfigMap.")
