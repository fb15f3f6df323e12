"""spec.warmup, spec.readiness and spec.recipeCache: preparation of a pod, its gate, and what later pods reuse."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ObjectName, Percent, Quantity, Seconds
from gaudi_operator.api.schema_keywords import SchemaRule, replace_default_keyword, schema_config_with_rules
from gaudi_operator.api.v1alpha1.model import OciImageSource


class WarmupPolicy(StrEnum):
    """How much a pod prepares before it serves."""

    COMPLETE = "Complete"
    SKIP = "Skip"


class Warmup(ApiModel):
    """Preparation of a pod before it serves."""

    policy: WarmupPolicy = Field(
        WarmupPolicy.COMPLETE,
        description="Complete compiles and captures all buckets before a pod serves. With Skip, the first request of"
        " every shape waits for a compile.",
    )
    graph_memory_percent: Annotated[int, Field(ge=0, le=99)] = Field(
        10,
        description="Share of the usable memory that is reserved for graphs, in percent. The KV cache gets the rest."
        " Default: 10.",
        json_schema_extra=replace_default_keyword,
    )
    time_budget_seconds: Seconds | None = Field(
        None,
        description="Time in seconds after which the warm-up starts no further bucket. When left out: no limit."
        " Buckets that together hold every request are always prepared. The remaining buckets"
        " are reported as left out, and requests are padded to larger warm buckets. A gate opens with cold buckets only"
        " if readiness.onShortfall is ServeAndWarn.",
    )
    stall_timeout_seconds: Seconds = Field(
        1800,
        description="Maximum time in seconds without progress of the warm-up. After this time, the pod counts as"
        " stalled and its container is restarted.",
    )


class Shortfall(StrEnum):
    """The reaction to a pod whose warm-up is incomplete or below the thresholds."""

    BLOCK = "Block"
    SERVE_AND_WARN = "ServeAndWarn"


class OnRecompiles(StrEnum):
    """The reaction to requests of a ready pod that wait for compiles."""

    IGNORE = "Ignore"
    WARN = "Warn"
    CLOSE_GATE = "CloseGate"


class Readiness(ApiModel):
    """Conditions of the readiness gate of a pod.

    The gate opens when every planned bucket is warm and capture has ended: each graph is captured, or was left out by
    a limit in the spec or for graph memory. The percentages are additional thresholds.
    """

    min_captured_prompt_percent: Percent = Field(
        0,
        description="Minimum share of planned prompt buckets that are captured (HpuGraphs) or executed a second time"
        " (TorchCompile), in percent.",
    )
    min_captured_decode_percent: Percent = Field(
        0,
        description="Minimum share of planned decode buckets that are captured (HpuGraphs) or executed a second time"
        " (TorchCompile), in percent.",
    )
    min_warmed_vision_percent: Percent = Field(
        100,
        description="Minimum share of planned vision buckets that are warmed up, in percent. Only for models that take"
        " images.",
    )
    on_shortfall: Shortfall = Field(
        Shortfall.BLOCK,
        description="Reaction to a pod whose warm-up is incomplete or below the thresholds: Block keeps the pod out of"
        " traffic, ServeAndWarn lets the pod serve. Default: Block.",
        json_schema_extra=replace_default_keyword,
    )
    on_recompiles: OnRecompiles = Field(
        OnRecompiles.WARN,
        description="Reaction to requests of a ready pod that wait for compiles. Ignore only counts the compiles in"
        " the status. Warn also sets the condition BucketCoverage. CloseGate also takes a pod with more than"
        " maxRecentRecompiles out of traffic while enough other pods serve. Default: Warn.",
        json_schema_extra=replace_default_keyword,
    )
    max_recent_recompiles: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10,
        description="Maximum number of recompiles of a pod within five minutes. Above this number, CloseGate closes"
        " the gate of the pod. The gate opens after five minutes without recompiles.",
    )


class AccessMode(StrEnum):
    """Access mode of a volume: pods on many nodes can mount the volume, or only pods on one node."""

    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE = "ReadWriteOnce"


class RetentionPolicy(StrEnum):
    """Retention of a volume that is no longer used."""

    RETAIN = "Retain"
    DELETE = "Delete"


_NO_PVC_OF_OURS = "has(oldSelf.existingClaim) || has(self.existingClaim)"
"""CEL: the operator's claim does not exist before or after the change."""


class RecipeCache(ApiModel):
    """Storage of compiled recipes that later pods start from, on a PersistentVolumeClaim.

    See docs/how-to/recipe-cache.md.
    """

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="!has(self.existingClaim) || !has(self.storageClassName)",
            message="spec.recipeCache.storageClassName is for the claim that the operator creates: leave it out with"
            " existingClaim",
        ),
        SchemaRule(
            rule=f"{_NO_PVC_OF_OURS} || has(self.storageClassName) == has(oldSelf.storageClassName) &&"
            " (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="spec.recipeCache.storageClassName cannot be changed: a PersistentVolumeClaim keeps its class",
        ),
        SchemaRule(
            rule=f"{_NO_PVC_OF_OURS} || self.accessMode == oldSelf.accessMode",
            message="spec.recipeCache.accessMode cannot be changed: a PersistentVolumeClaim keeps it",
        ),
        SchemaRule(
            rule=f"{_NO_PVC_OF_OURS} || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",
            message="spec.recipeCache.size cannot be lowered: a PersistentVolumeClaim only grows",
        ),
    )
    existing_claim: ObjectName | None = Field(
        None,
        description="Name of a PersistentVolumeClaim in this namespace. Several resources may share the claim. When"
        " left out, the operator creates a claim.",
    )
    retention_policy: RetentionPolicy = Field(
        RetentionPolicy.DELETE,
        description="Retention of a claim that the operator created, after recipeCache is removed or the resource"
        " is deleted: Delete deletes the claim, Retain keeps the claim for a resource of the same name.",
    )
    size: Quantity = Field(
        "20Gi",
        description="Size of the claim that the operator creates. Cannot be lowered. Recipes use at most nine tenths"
        " of the claim.",
    )
    storage_class_name: ObjectName | None = Field(
        None,
        description="Storage class of the claim that the operator creates. When left out: the default of the cluster."
        " Cannot be changed.",
    )
    access_mode: AccessMode = Field(
        AccessMode.READ_WRITE_MANY,
        description="Access mode of the claim that the operator creates. ReadWriteOnce keeps all pods on one node."
        " Cannot be changed.",
    )
    max_age_days: Annotated[int, Field(ge=1, le=3650)] = Field(
        30, description="Number of days after which recipes are deleted if no pod has started with them."
    )
    oci_image: OciImageSource | None = Field(
        None,
        description="OCI image with the content of a recipe volume. Pods read the image if the claim has no recipes"
        " for them.",
    )
