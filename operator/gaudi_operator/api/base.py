"""The base of all API types, and bounded leaf types."""

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from gaudi_operator.api.schema_keywords import SchemaRule, rules_keyword
from gaudi_runtime.contract.base import TolerantModel


class ApiModel(TolerantModel):
    """A part of a resource. Unknown fields are ignored, so that a newer CRD does not break an older operator."""


def number_as_text(value: Any) -> Any:
    """Return a whole number as text, for base types such as Quantity, and every other value unchanged."""
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
    # The pattern applies to text only. Numbers need a separate lower bound.
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0}),
]
"""A quantity of Kubernetes: text, or a whole number without quotes."""
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=256)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
AbsolutePath = Annotated[
    PathText,
    Field(
        json_schema_extra=rules_keyword(
            SchemaRule(
                rule="self.startsWith('/') && !self.split('/').exists(part, part == '..')",
                message="must be an absolute path without '..': start it with '/'",
            )
        )
    ),
]
RelativePath = Annotated[
    PathText,
    Field(
        json_schema_extra=rules_keyword(
            SchemaRule(
                rule="!self.startsWith('/') && !self.split('/').exists(part, part == '..')",
                message="must be a relative path: remove '..' and a leading '/'",
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
VALID_KEYS = SchemaRule(
    rule="self.all(key, key.matches('^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))",
    message="every key must be a name such as app or example.com/app",
)
Labels = Annotated[dict[KeyText, LabelValue], Field(max_length=32, json_schema_extra=rules_keyword(VALID_KEYS))]
Annotations = Annotated[
    dict[KeyText, AnnotationValue], Field(max_length=32, json_schema_extra=rules_keyword(VALID_KEYS))
]


DataKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
"""A key of a Secret."""


class SecretKey(ApiModel):
    """Base of references to a key of a Secret in the same namespace. Only the kubelet reads the key."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    name: ObjectName = Field(description="Name of the Secret.")
    key: DataKey = Field(description="Key of the Secret.")


def dump_api_model(model: ApiModel) -> dict[str, Any]:
    """Return the fields of an API model that differ from their defaults, as a Kubernetes manifest."""
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
