"""spec.accelerator and spec.parallelism: what a pod gets, and how the model is spread over it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ObjectName, Quantity, Rule, validated_by
from gaudi_runtime.contract.config import Ranks

CARD_RESOURCE = "habana.ai/gaudi"
"""The extended resource of Intel's device plugin: one unit is one card."""


class Generation(StrEnum):
    """Card generation; `none` runs on the CPU, for laptops and CI."""

    GAUDI2 = "gaudi2"
    GAUDI3 = "gaudi3"
    NONE = "none"


class Accelerator(ApiModel):
    """The cards and memory of one pod."""

    model_config = validated_by(
        Rule(
            rule="(self.generation == 'none') == has(self.deviceMemory)",
            message="spec.accelerator.deviceMemory belongs to generation none, and only to it:"
            " a card's memory is measured",
        ),
        Rule(
            rule="!has(self.resourceClaimTemplateName) || self.generation != 'none'",
            message="spec.accelerator.resourceClaimTemplateName needs a card: set generation to gaudi2 or gaudi3",
        ),
    )
    generation: Generation = Field(description="Card generation: gaudi2, gaudi3, or none for the CPU.")
    resource_claim_template_name: ObjectName | None = Field(
        None, description="ResourceClaimTemplate of the DRA driver, instead of the extended resource."
    )
    hugepages: Quantity | None = Field(None, description="hugepages-2Mi of a pod, for example 21000Mi.")
    device_memory: Quantity | None = Field(
        None, description="Memory budget that stands for a card's memory when generation is none."
    )


class Parallelism(ApiModel):
    """How one replica of the model is spread over cards and nodes."""

    model_config = validated_by(
        Rule(
            rule="(self.nodes == 1) == (oldSelf.nodes == 1)",
            message="spec.parallelism.nodes cannot change between one node and several: the pods are of"
            " another kind; create a new GaudiInference",
        ),
        Rule(
            rule="self.tensor * self.pipeline * self.data % self.nodes == 0",
            message="spec.parallelism.nodes must divide tensor x pipeline x data",
        ),
        Rule(
            rule="!self.experts || self.tensor * self.data > 1",
            message="spec.parallelism.experts needs more than one rank: raise tensor or data",
        ),
    )
    tensor: Ranks = Field(1, description="Tensor-parallel ranks.")
    pipeline: Ranks = Field(1, description="Pipeline-parallel stages.")
    data: Ranks = Field(1, description="Data-parallel ranks inside one replica.")
    experts: bool = Field(
        False, description="Whether the experts of a mixture are spread over the ranks instead of split between them."
    )
    nodes: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Nodes that one replica spans, a pod on each; above 1 it is a group of a LeaderWorkerSet."
    )

    @property
    def ranks_per_pod(self) -> int:
        """Ranks in one pod; each has a card of its own."""
        return self.tensor * self.pipeline * self.data // self.nodes
