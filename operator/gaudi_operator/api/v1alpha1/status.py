"""GaudiInferenceStatus. The status is small, because the report of each pod contains the details."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, Count, Percent
from gaudi_operator.api.schema_keywords import list_map_keywords

Text = Annotated[str, Field(max_length=1024)]
Word = Annotated[str, Field(max_length=32)]
Revision = Annotated[str, Field(max_length=64)]
Bytes = Annotated[int, Field(ge=0)]
Large = Annotated[int, Field(ge=0)]
"""A number of 64 bits, such as KV blocks or the seconds of a slow simulation."""
Generation = Annotated[int, Field(ge=0)]
# The bounds of type, reason and message equal those of metav1.Condition, so that conditions from any writer are
# accepted.
ConditionType = Annotated[
    str,
    Field(
        max_length=316,
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    ),
]
ConditionReason = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
]
Timestamp = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
# The number of entries is limited, because each status update sends all entries to every watcher, and a rollout updates
# the status every second.
MAX_PODS = 20
MAX_REVISIONS = 10


class ConditionStatus(StrEnum):
    """Status of a condition: `True`, `False` or `Unknown`."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """Condition of the resource, as metav1.Condition of Kubernetes."""

    type: ConditionType = Field(description="Type of the condition, such as Ready.")
    status: ConditionStatus = Field(description="Status of the condition: True, False or Unknown.")
    reason: ConditionReason = Field(description="Reason of the status in one word, for programs.")
    message: Annotated[str, Field(max_length=32_768)] = Field(description="Explanation of the status, for people.")
    last_transition_time: Timestamp = Field(description="Time of the last change of the status.")
    observed_generation: Generation | None = Field(
        None, description="Generation of the spec that the condition was computed for."
    )


class CapturedPercent(ApiModel):
    """Captured share in the status: planned buckets that are captured or executed, in percent, rounded down."""

    prompt: Percent | None = Field(
        None, description="Share of planned prompt buckets that are captured or executed, in percent, rounded down."
    )
    decode: Percent | None = Field(
        None, description="Share of planned decode buckets that are captured or executed, in percent, rounded down."
    )


class PlanBasis(StrEnum):
    """Origin of the figures of a plan in the status."""

    SIMULATED = "Simulated"
    MEASURED = "Measured"


class PlanState(ApiModel):
    """Status of the plan of the spec, as a pod has reported it. Absent before the first report."""

    basis: PlanBasis = Field(
        description="Origin of the figures. Measured: reported by a pod of the current revision. Simulated: reported"
        " by a pod with the sim engine."
    )
    prompt_buckets: Count = Field(description="Number of prompt buckets.")
    decode_buckets: Count = Field(description="Number of decode buckets.")
    vision_buckets: Count | None = Field(
        None,
        description="Number of vision buckets. Only for models that take images.",
    )
    kv_blocks: Large = Field(description="Number of KV blocks that the plan covers.")
    block_size: Large | None = Field(
        None,
        description="Number of tokens per KV block of the engine. Absent if equal to spec.engine.blockSize.",
    )
    graph_bytes: Bytes | None = Field(
        None, description="Size of the captured graphs on one card, in bytes. Absent until the pod is warmed up."
    )
    warmup_seconds: Large | None = Field(
        None,
        description="Time from the start of the pod until the pod serves, in seconds. Absent until the pod is warmed"
        " up.",
    )
    captured_percent: CapturedPercent = Field(
        CapturedPercent(),
        description="Share of planned buckets that are captured or executed.",
    )
    prompt_gaps: Count = Field(0, description="Number of ranges of prompt batches without a bucket.")
    decode_gaps: Count = Field(0, description="Number of ranges of decode batches without a bucket.")
    source: Text | None = Field(None, description="Pod that the figures come from.")


class WarmupProgress(ApiModel):
    """Warm-up progress in the status. The values come from the least advanced pod of the current revision."""

    percent: Percent = Field(0, description="Progress of compiling and capturing all buckets, in percent.")
    eta: Timestamp | None = Field(None, description="Estimated end of the warm-up, rounded to 10 seconds.")


class LastTermination(ApiModel):
    """Status of the last termination: how the last container of a pod, or the whole pod, ended."""

    time: Timestamp | None = Field(None, description="Time of the end, as reported by the kubelet.")
    reason: Annotated[str, Field(max_length=64)] = Field(
        description="Reason in one word, such as OOMKilled, Error or Evicted."
    )
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = Field(
        None, description="Exit code of the container, if it ran."
    )
    phase: Word | None = Field(None, description="Phase of the runtime at the end, if known.")
    bucket: Annotated[str, Field(max_length=128)] | None = Field(
        None, description="Bucket that was being compiled or captured, if known."
    )
    message: Text = Field(
        description="Phase, bucket, reason, exit code and the last lines of the container, in one sentence."
    )


class PodState(ApiModel):
    """Status of one pod, from its last valid report."""

    name: Annotated[str, Field(max_length=253)] = Field(description="Name of the pod.")
    revision: Revision = Field(description="Revision of the pod.")
    phase: Word = Field(description="Phase of the runtime, or of the pod before the runtime has started.")
    gate: bool = Field(description="Whether the readiness gate inference.gaudi.dev/warmed-up of the pod is open.")
    ready: bool = Field(description="Whether the pod is ready and receives traffic.")
    warmup_percent: Percent = Field(0, description="Progress of the warm-up in percent.")
    captured_percent: CapturedPercent = Field(
        CapturedPercent(), description="Share of planned buckets that are captured or executed in this pod."
    )
    recompiles_since_ready: Count = Field(0, description="Number of compiles that requests of this pod waited for.")
    restarts: Count = Field(0, description="Number of restarts of the runtime container.")
    last_termination: LastTermination | None = Field(None, description="How the last container of the pod ended.")
    message: Text | None = Field(None, description="Reason why the pod is not ready.")


class ColdShape(ApiModel):
    """Shape of a batch that had no warm graph."""

    phase: Annotated[str, Field(max_length=16)] = Field(description="Phase of the batch: prompt or decode.")
    shape: tuple[Large, Large, Large] = Field(description="Shape of the batch: (batch size, query tokens, KV blocks).")
    count: Count = Field(description="Number of batches of this shape, summed over all pods.")
    compiles: Count = Field(
        0, description="Number of compiles that batches of this shape waited for, summed over all pods."
    )


class Recompiles(ApiModel):
    """Recompiles in the status: compiles that requests waited for, summed over the ready pods."""

    since_ready: Count = Field(0, description="Number of compiles since the pods became ready.")
    cold_shapes: Annotated[tuple[ColdShape, ...], Field(max_length=10)] = Field(
        (),
        description="The most frequent shapes without a warm graph.",
    )


class RecipeCacheState(ApiModel):
    """Status of the recipe cache for pods of the current revision."""

    phase: Word = Field(
        description="State of the cache: Empty before a pod has read the cache, Seeding while a pod compiles recipes"
        " for the cache, Filled, or Missed if pods can neither read nor add recipes."
    )
    message: Text | None = Field(None, description="Reason why a pod read no recipes or added no recipes.")


class Revisions(ApiModel):
    """Status of the revisions: the names of the desired revision and of the stable revision."""

    current: Revision | None = Field(None, description="Name of the desired revision.")
    stable: Revision | None = Field(
        None,
        description="Name of the last revision whose rollout completed. A failed revision is rolled back to this"
        " revision.",
    )


class RevisionPhase(StrEnum):
    """Phase of a revision in the status."""

    SERVING = "Serving"
    ROLLING_OUT = "RollingOut"
    SCALING_DOWN = "ScalingDown"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    KEPT = "Kept"


class RevisionTermination(ApiModel):
    """Status of the last termination of a pod or container of a revision.

    The entry remains after the pod and the container are deleted.
    """

    time: Timestamp = Field(description="Time of the end.")
    pod: Annotated[str, Field(max_length=253)] = Field(description="Name of the pod.")
    message: Text = Field(
        description="Phase, bucket, reason, exit code and the last lines of the container, in one sentence."
    )


class BackOff(ApiModel):
    """Status of the back-off of a revision whose pods ended before any pod became ready."""

    failures: Count = Field(
        description="Number of consecutive pods or containers that ended. Reset when a pod becomes ready."
    )
    first: Timestamp | None = Field(None, description="Time when the first of these pods or containers ended.")
    since: Timestamp = Field(description="Time when the last of these pods or containers ended.")
    until: Timestamp = Field(description="Time before which no new pod of the revision is created. Existing pods stay.")


class RevisionStatus(ApiModel):
    """Status of one stored revision."""

    name: Revision = Field(description="Name of the revision: the hash of its inputs.")
    number: Annotated[int, Field(ge=0)] = Field(
        description="Number of the revision. A revision that becomes the desired revision gets the highest number."
    )
    phase: RevisionPhase = Field(
        description="Phase of the revision. Serving: rolled out, or being replaced while its pods receive traffic."
        " RollingOut: rollout in progress. ScalingDown: replaced, and the remaining pods receive no traffic. Failed:"
        " failed, and paused or with remaining pods. RolledBack: failed, without pods. Kept: neither running nor"
        " desired."
    )
    served: bool = Field(
        False,
        description="Whether a pod of the revision was ready at any time. A canary pod counts only after the canary"
        " has passed.",
    )
    created: Timestamp | None = Field(None, description="Time at which the revision was created.")
    reason: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Reason of the failure in one word, for programs."
    )
    message: Text | None = Field(None, description="Explanation of the failure, with evidence.")
    last_termination: RevisionTermination | None = Field(
        None, description="Last termination of a pod or container of the revision."
    )
    back_off: BackOff | None = Field(
        None, description="Back-off for new pods, after pods ended before any pod became ready."
    )


class GaudiInferenceStatus(ApiModel):
    """Status of a GaudiInference: the observed state of a model."""

    observed_generation: Generation = Field(0, description="Generation of the spec that this status was computed for.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        (),
        description="Conditions: Ready, Reconciling, Stalled, Available, WarmedUp, PlanAccepted and others"
        " (docs/reference/conditions.md).",
        json_schema_extra=list_map_keywords("type"),
    )
    replicas: Count = Field(0, description="Number of pods of all revisions.")
    updated_replicas: Count = Field(0, description="Number of pods of the current revision.")
    ready_replicas: Count = Field(0, description="Number of ready pods of all revisions.")
    expected_ready_replicas: Count = Field(
        0,
        description="Number of pods that should be ready: the highest number of ready pods since replicas was last"
        " lowered, minus the pods that a rollout may remove. If readyReplicas is lower, the difference is the number"
        " of lost pods.",
    )
    selector: Annotated[str, Field(max_length=1024)] = Field(
        "", description="Label selector of the pods, for the scale subresource."
    )
    captured_percent: CapturedPercent = Field(
        CapturedPercent(),
        description="Lowest share of planned buckets that are captured (HpuGraphs), executed a second time"
        " (TorchCompile) or warm (other modes), among the ready pods of the current revision. If no pod of this"
        " revision is ready, all its pods count.",
    )
    plan: PlanState | None = Field(
        None, description="Size and cost of the plan of the spec. Absent if no plan is possible."
    )
    warmup: WarmupProgress | None = Field(None, description="Progress of the warm-up of the least advanced pod.")
    recompiles: Recompiles = Field(Recompiles(), description="Number of compiles that requests waited for.")
    recipe_cache: RecipeCacheState | None = Field(
        None, description="State of the recipe cache. Only with spec.recipeCache."
    )
    revision: Revisions = Field(Revisions(), description="Names of the desired revision and of the stable revision.")
    revisions: Annotated[tuple[RevisionStatus, ...], Field(max_length=MAX_REVISIONS)] = Field(
        (), description="The newest stored revisions, newest first."
    )
    endpoint: Text | None = Field(None, description="Address of the OpenAI API inside the cluster.")
    pods: Annotated[tuple[PodState, ...], Field(max_length=MAX_PODS)] = Field(
        (), description="Up to 20 pods. Pods that are not ready come first."
    )

    @property
    def served_revisions(self) -> frozenset[str]:
        """The names of the listed revisions that had a ready pod at any time."""
        return frozenset(revision.name for revision in self.revisions if revision.served)
