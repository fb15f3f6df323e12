"""Label selectors, as in Kubernetes."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, Labels, LabelValue
from gaudi_operator.api.schema_keywords import SchemaRule, schema_config_with_rules

LabelKey = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]
ComparedValues = Annotated[tuple[LabelValue, ...], Field(max_length=16)]

VALUES_OF_A_COMPARISON = SchemaRule(
    rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
    message="values is needed when operator is In or NotIn",
)
NO_VALUES_OF_EXISTENCE = SchemaRule(
    rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
    message="values must be left out when operator is Exists or DoesNotExist",
)


class SelectorOperator(StrEnum):
    """Operator of a label selector: how a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ApiModel):
    """Comparison of one label by a label selector."""

    model_config = schema_config_with_rules(VALUES_OF_A_COMPARISON, NO_VALUES_OF_EXISTENCE)
    key: LabelKey = Field(description="Key of the label.")
    operator: SelectorOperator = Field(description="Comparison: In, NotIn, Exists or DoesNotExist.")
    values: ComparedValues = Field((), description="Values for In and NotIn.")


class LabelSelector(ApiModel):
    """Selects objects by their labels. An empty selector selects all objects."""

    match_labels: Labels = Field({}, description="Labels and values that an object must have.")
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=8)] = Field(
        (), description="Comparisons that must be true in addition to matchLabels."
    )
