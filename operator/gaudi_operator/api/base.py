"""The base of all API types, bounded leaf types, and CEL rules."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from gaudi_runtime.contract.base import Tolerant


class Rule(BaseModel):
    """A CEL rule of the schema. The API server rejects an object that violates it, with `message`.

    With `before`, `oldSelf` is an optional, which is empty when an object is created. The rule can then apply to new
    objects and exempt objects that are older than the rule.
    """

    rule: str
    message: str
    before: bool = False

    def written(self) -> JsonDict:
        """Return the rule as an entry of x-kubernetes-validations."""
        written: JsonDict = {"rule": self.rule, "message": self.message}
        return written | {"optionalOldSelf": True} if self.before else written


def rules(*rules: Rule) -> JsonDict:
    """Return the schema keywords that make the API server check `rules`, for `json_schema_extra` of a field."""
    return {"x-kubernetes-validations": [each.written() for each in rules]}


MEANT_WHEN_LEFT_OUT = "x-meant-when-left-out"
"""The keyword of a default that the operator fills in instead of the API server. No published schema contains it."""


def meant_when_left_out(schema: JsonDict) -> None:
    """Remove the default from the schema of a field, for `json_schema_extra`.

    The API server would write the default into every resource, and an operator of another release may reject it.
    """
    schema[MEANT_WHEN_LEFT_OUT] = schema.pop("default")


def list_map(*keys: str) -> JsonDict:
    """Return the schema keywords of a list whose entries server-side apply merges by `keys`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def validated_by(*checks: Rule) -> ConfigDict:
    """Return the model configuration that adds CEL rules to the schema. `self` is the object."""
    return ConfigDict(json_schema_extra=rules(*checks))


class ApiModel(Tolerant):
    """A part of a resource. Unknown fields are ignored, so that a newer CRD does not break an older operator."""


def number_as_text(value: Any) -> Any:
    """Return a whole number as text, and every other value unchanged."""
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
    # The pattern applies to text only. A number needs a bound of its own.
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0}),
]
"""A quantity of Kubernetes: text, or a whole number without quotes."""
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
                message="must be a relative path without '..': it is relative to its folder",
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
    message="every key must be a name such as app or example.com/app",
)
Labels = Annotated[dict[KeyText, LabelValue], Field(max_length=32, json_schema_extra=rules(VALID_KEYS))]
Annotations = Annotated[dict[KeyText, AnnotationValue], Field(max_length=32, json_schema_extra=rules(VALID_KEYS))]


DataKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of a Secret or a ConfigMap."""


class SecretKey(ApiModel):
    """Key of a Secret in the same namespace. The kubelet reads it, the operator does not."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    name: ObjectName = Field(description="Name of the Secret.")
    key: DataKey = Field(description="Key of the Secret.")


class ConfigMapKey(ApiModel):
    """Key of a ConfigMap in the same namespace."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: DataKey = Field(description="Key of the ConfigMap.")


def as_written(model: ApiModel) -> dict[str, Any]:
    """Return the fields of an API model that differ from their defaults, in the form of Kubernetes."""
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
