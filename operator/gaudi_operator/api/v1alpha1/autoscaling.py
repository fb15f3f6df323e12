"""spec.autoscaling: bounds, metrics and behavior of the HorizontalPodAutoscaler, as in autoscaling/v2."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel
from gaudi_operator.api.schema_keywords import Block, SchemaRule, schema_config_with_rules
from gaudi_operator.api.v1alpha1.rollout import MAX_REPLICAS


class Autoscaling(ApiModel):
    """HorizontalPodAutoscaler that writes replicas through the scale subresource (docs/how-to/scaling.md)."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="self.minReplicas <= self.maxReplicas",
            message="spec.autoscaling.minReplicas must be at most maxReplicas",
        )
    )
    min_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(1, description="Minimum number of replicas.")
    max_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(description="Maximum number of replicas.")
    metrics: Annotated[tuple[Block, ...], Field(max_length=8)] = Field(
        (),
        description="Metrics and their targets, as in a HorizontalPodAutoscaler. When left out: the metric"
        " gaudi_requests_running of the pods, with an average value of 80 % of engine.maxNumSeqs x parallelism.data.",
    )
    behavior: Block = Field(
        {},
        description="Speed of scaling in both directions, as in a HorizontalPodAutoscaler. When left out,"
        " scaleDown.stabilizationWindowSeconds is the measured warm-up time of a pod of the serving revision. This time"
        " is rounded up to a minute and limited to 300 to 3600 seconds.",
    )
