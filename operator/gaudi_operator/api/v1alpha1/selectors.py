"""Label selectors, written as everywhere in Kubernetes."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, KeyText, Labels, LabelValue, Rule, validated_by


class SelectorOperator(StrEnum):
    """How the label of an object is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ApiModel):
    """One comparison of a label."""

    model_config = validated_by(
        Rule(
            rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            message="matchExpressions: values belong to the operators In and NotIn, and only to them",
        )
    )
    key: KeyText = Field(description="Name of the label.")
    operator: SelectorOperator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = Field(
        (), description="Values that In and NotIn compare with."
    )


class LabelSelector(ApiModel):
    """Objects by their labels; all of them where it is empty."""

    match_labels: Labels = Field({}, description="Labels that an object must have, with these values.")
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=8)] = Field(
        (), description="Comparisons that must hold besides."
    )
