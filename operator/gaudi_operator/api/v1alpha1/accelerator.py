"""spec.accelerator and spec.parallelism: the devices of a pod, and how a model is distributed over them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ObjectName, Quantity
from gaudi_operator.api.schema_keywords import SchemaRule, schema_config_with_rules
from gaudi_runtime.contract.config import Ranks

CARD_RESOURCE = "habana.ai/gaudi"
"""The extended resource of Intel's device plugin: one unit is one card."""


class Generation(StrEnum):
    """Generation of the card. The value `none` selects the CPU, for laptops and CI."""

    GAUDI2 = "gaudi2"
    GAUDI3 = "gaudi3"
    NONE = "none"


class Accelerator(ApiModel):
    """Cards and device memory of one pod."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="self.generation != 'none' || has(self.deviceMemory)",
            message="spec.accelerator.deviceMemory is required if generation is 'none': set the memory for weights "
            "and KV cache, such as 8Gi",
        ),
        SchemaRule(
            rule="self.generation == 'none' || !has(self.deviceMemory)",
            message="spec.accelerator.deviceMemory is only for generation 'none', because pods measure the memory of "
            "cards: remove it",
        ),
        SchemaRule(
            rule="!has(self.resourceClaimTemplateName) || self.generation != 'none'",
            message="spec.accelerator.resourceClaimTemplateName needs a card: set generation to gaudi2 or gaudi3",
        ),
    )
    generation: Generation = Field(
        description="Generation of the cards: gaudi2 or gaudi3. The value none selects the CPU."
    )
    resource_claim_template_name: ObjectName | None = Field(
        None,
        description="Name of the ResourceClaimTemplate for the cards of pods (dynamic resource allocation). When left"
        f" out, pods request the extended resource {CARD_RESOURCE}.",
    )
    hugepages: Quantity | None = Field(
        None,
        description="Amount of hugepages-2Mi that a pod requests, such as 21000Mi. When left out, a pod requests none.",
    )
    device_memory: Quantity | None = Field(
        None,
        description="Memory for weights and KV cache of a pod without cards. Required if generation is none,"
        " otherwise not allowed.",
    )


class Parallelism(ApiModel):
    """Distribution of one replica of the model over cards and nodes. A replica has tensor x pipeline x data ranks."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="(self.nodes == 1) == (oldSelf.nodes == 1)",
            message="spec.parallelism.nodes cannot change between one node and several nodes, because the pods are "
            "of another kind: create a new GaudiInference",
        ),
        SchemaRule(
            rule="self.tensor * self.pipeline * self.data % self.nodes == 0",
            message="spec.parallelism.nodes must divide tensor x pipeline x data",
        ),
        SchemaRule(
            rule="!self.expert || self.tensor * self.data > 1",
            message="spec.parallelism.expert needs more than one rank: raise tensor or data",
        ),
    )
    tensor: Ranks = Field(1, description="Number of tensor parallel ranks.")
    pipeline: Ranks = Field(1, description="Number of pipeline parallel stages.")
    data: Ranks = Field(1, description="Number of data parallel ranks in one replica.")
    expert: bool = Field(
        False,
        description="Whether each rank holds complete experts of a mixture of experts. If false, each rank holds a"
        " part of every expert.",
    )
    nodes: Annotated[int, Field(ge=1, le=64)] = Field(
        1,
        description="Number of nodes of one replica. Each node runs one pod. Above 1, the pods are a group of a"
        " LeaderWorkerSet. Cannot change from 1 to a larger number or back.",
    )

    @property
    def ranks_per_pod(self) -> int:
        """Number of ranks in one pod. Each rank has a separate card."""
        return self.tensor * self.pipeline * self.data // self.nodes
