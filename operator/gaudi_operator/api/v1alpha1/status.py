"""GaudiInferenceStatus: what everybody can see. Small; per-pod detail stands in the pod's own report."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, Count, Percent, list_map

Text = Annotated[str, Field(max_length=1024)]
Word = Annotated[str, Field(max_length=32)]
Revision = Annotated[str, Field(max_length=64)]
Bytes = Annotated[int, Field(ge=0)]
Large = Annotated[int, Field(ge=0)]
"""A number of 64 bits: KV blocks, seconds of a slowed-down simulation."""
Generation = Annotated[int, Field(ge=0)]
# Type, reason and message are bounded as in metav1.Condition, so that a condition of any writer is accepted.
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
# Every write carries all of them to every watcher, while a rollout changes them by the second.
MAX_PODS = 20
MAX_REVISIONS = 10


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One judged fact about the resource, as Kubernetes writes it."""

    type: ConditionType = Field(description="Which fact.")
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: ConditionReason = Field(description="Stable word for machines.")
    message: Annotated[str, Field(max_length=32_768)] = Field(description="Sentence for people.")
    last_transition_time: Timestamp = Field(description="When status last changed.")
    observed_generation: Generation | None = Field(
        None, description="Generation of the spec that the condition is about."
    )


class BucketCounts(ApiModel):
    """Buckets of one phase; planned is always the denominator."""

    planned: Count = Field(description="Buckets in the plan.")
    warmed: Count = Field(description="Buckets that are compiled.")
    captured: Count = Field(description="Buckets whose graph is captured.")


class VisionCounts(ApiModel):
    """Buckets of the vision tower, which are not captured apart."""

    planned: Count = Field(description="Buckets that the plugin plans for the model.")
    warmed: Count = Field(description="Buckets that the tower has run with.")


class Buckets(ApiModel):
    """Buckets of both phases, of the pod that capturedPercent speaks of."""

    prompt: BucketCounts | None = Field(None, description="Prompt buckets.")
    decode: BucketCounts | None = Field(None, description="Decode buckets.")
    vision: VisionCounts | None = Field(None, description="Vision buckets; only of a model that takes images.")


class CapturedPercent(ApiModel):
    """Captured graphs in percent of the plan, floored; the least over the pods that the figures speak of."""

    prompt: Percent | None = Field(None, description="Captured prompt graphs in percent of planned prompt buckets.")
    decode: Percent | None = Field(None, description="Captured decode graphs in percent of planned decode buckets.")


class PlanBasis(StrEnum):
    """Where the figures of a plan come from, least sure first."""

    COUNTED = "Counted"
    ESTIMATED = "Estimated"
    SIMULATED = "Simulated"
    MEASURED = "Measured"


MEASURED_BASES = frozenset({PlanBasis.MEASURED, PlanBasis.SIMULATED})
"""Bases whose figures are those of a pod that has warmed up."""


class PlanAdvice(ApiModel):
    """A plan learned from the traffic of a pod that saves at least a third of the warm-up at no more padding."""

    graphs: Count = Field(description="Graphs of the learned plan.")
    graphs_now: Count = Field(description="Graphs of the plan that serves.")
    warmup_seconds: Large = Field(description="Estimated seconds of a warm-up with the learned plan.")
    warmup_seconds_now: Large = Field(description="The same with the plan that serves.")
    pod: Annotated[str, Field(max_length=253)] = Field(description="Name of the pod that compared both.")
    message: Text = Field(description="What the learned plan saves, and the command that applies it.")


class PlanState(ApiModel):
    """What the plan of the spec takes: estimated before a pod has warmed up, then as the first one has found it."""

    basis: PlanBasis = Field(
        description="Counted: only buckets are known. Estimated: from a described card, before a pod has measured."
        " Measured, or Simulated by the sim engine: by a pod of the current revision."
    )
    prompt_buckets: Count = Field(description="Prompt buckets.")
    decode_buckets: Count = Field(description="Decode buckets.")
    vision_buckets: Count | None = Field(
        None, description="Vision buckets of a model that takes images, once a pod has reported them."
    )
    kv_blocks: Large = Field(description="KV blocks that the plan is for.")
    block_size: Large | None = Field(
        None, description="Tokens of a KV block, where the engine has others than spec.engine.blockSize."
    )
    graph_bytes: Bytes | None = Field(None, description="Bytes of the graphs that fit, of one card.")
    warmup_seconds: Large | None = Field(
        None, description="Seconds of warm-up as estimated, or from a pod's start until it served as measured."
    )
    captured_percent: CapturedPercent = Field(CapturedPercent(), description="Graphs that fit, in percent of the plan.")
    prompt_gaps: Count = Field(0, description="Regions of prompt batches that no bucket holds.")
    decode_gaps: Count = Field(0, description="Regions of decode batches that no bucket holds.")
    source: Text | None = Field(None, description="Where the figures come from, or why there are none yet.")
    advice: PlanAdvice | None = Field(None, description="Only if a learned plan would save enough.")


class WarmupProgress(ApiModel):
    """How far the least advanced pod of the current revision is."""

    percent: Percent = Field(0, description="Warm-up done, in percent of all buckets compiled and captured.")
    phase: Word = Field(description="Phase of the least advanced pod.")
    eta: Timestamp | None = Field(None, description="Estimated end of warm-up, rounded to 10 s.")


class LastTermination(ApiModel):
    """Facts about how the last container of a pod, or the pod as a whole, ended."""

    time: Timestamp | None = Field(None, description="When it ended, as its kubelet says.")
    reason: Annotated[str, Field(max_length=64)] = Field(description="Reason, such as OOMKilled, Error or Evicted.")
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = Field(
        None, description="Exit code of the container, if it ever ran."
    )
    phase: Word | None = Field(None, description="Phase of its runtime then, if it was known.")
    bucket: Annotated[str, Field(max_length=128)] | None = Field(
        None, description="Bucket that was being compiled or captured then, if it was known."
    )
    message: Text = Field(description="All of it in one sentence, with the last lines that the container wrote.")


class PodState(ApiModel):
    """One pod, as its last accepted report says."""

    name: Annotated[str, Field(max_length=253)] = Field(description="Name of the pod.")
    revision: Revision = Field(description="Revision that it runs.")
    phase: Word = Field(description="Phase of its runtime, or of the pod before that.")
    gate: bool = Field(description="Whether its gate inference.gaudi.dev/warmed-up is open.")
    ready: bool = Field(description="Whether the pod takes traffic.")
    warmup_percent: Percent = Field(0, description="Warm-up done in percent.")
    captured_percent: CapturedPercent = Field(CapturedPercent(), description="Captured graphs in percent of the plan.")
    recompiles_since_ready: Count = Field(0, description="Compiles on the request path since it serves.")
    restarts: Count = Field(0, description="How often its container was restarted.")
    last_termination: LastTermination | None = Field(None, description="How the last container of the pod ended.")
    message: Text | None = Field(None, description="What keeps it from serving.")


class MemorySplit(ApiModel):
    """Memory of the least roomy pod after its profile run, in bytes."""

    usable_bytes: Bytes = Field(description="Bytes that may be used.")
    graph_bytes: Bytes = Field(description="Bytes kept for graphs.")
    kv_cache_bytes: Bytes = Field(description="Bytes of the KV cache.")
    kv_blocks: Large = Field(description="KV blocks.")


class ColdShape(ApiModel):
    """A shape that met no warm graph."""

    phase: Annotated[str, Field(max_length=16)] = Field(description="prompt or decode.")
    shape: tuple[Large, Large, Large] = Field(description="(batch size, query tokens, KV blocks).")
    count: Count = Field(description="How often, over all pods.")
    compiles: Count = Field(0, description="Compiles that batches of this shape waited for, over all pods.")


class Recompiles(ApiModel):
    """Compiles on the request path since pods became ready."""

    since_ready: Count = Field(0, description="Over all serving pods.")
    recent: Count = Field(0, description="Those of the last five minutes.")
    prompt: Count = Field(0, description="Those of prompt batches.")
    decode: Count = Field(0, description="Those of decode batches.")
    vision: Count = Field(0, description="Those of the vision tower.")
    cold_shapes: Annotated[tuple[ColdShape, ...], Field(max_length=10)] = Field(
        (),
        description="The most frequent cold shapes.",
    )


class RecipeCacheState(ApiModel):
    """What the recipe cache did for pods of the current revision."""

    phase: Word = Field(
        description="Empty before a pod has looked, Seeding while a pod compiles its content, Filled, or Missed"
        " where pods can neither take nor add recipes."
    )
    hit_percent: Percent | None = Field(
        None, description="Planned buckets whose recipe a pod found at its start, in percent; of the pod with the most."
    )
    saved_seconds: Large | None = Field(
        None,
        description="What compiling these buckets once took, less what copying and loading them took that pod, in"
        " seconds; all measured.",
    )
    message: Text | None = Field(None, description="Why a pod took nothing, or could add nothing.")


class Revisions(ApiModel):
    """Which revisions exist."""

    current: Revision | None = Field(None, description="The desired revision.")
    stable: Revision | None = Field(
        None, description="The last revision that was rolled out completely: what a failed one is rolled back to."
    )


class RevisionPhase(StrEnum):
    """Where a revision stands."""

    SERVING = "Serving"
    ROLLING_OUT = "RollingOut"
    SCALING_DOWN = "ScalingDown"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    KEPT = "Kept"


class RevisionTermination(ApiModel):
    """How a pod of a revision, or a container in it, ended last; kept when both are gone."""

    time: Timestamp = Field(description="When it ended.")
    pod: Annotated[str, Field(max_length=253)] = Field(description="Name of the pod.")
    message: Text = Field(description="Phase and bucket where known, exit code or reason, last words.")


class BackOff(ApiModel):
    """Tries of a revision that ended before a pod of it served, and the pause after the last of them."""

    failures: Count = Field(description="Tries in a row that ended; forgotten when a pod serves.")
    first: Timestamp | None = Field(None, description="When the first of them ended.")
    since: Timestamp = Field(description="When the last of them ended.")
    until: Timestamp = Field(description="No new pod of the revision is made before; running pods stay.")


class RevisionStatus(ApiModel):
    """One revision of the history."""

    name: Revision = Field(description="Name: the hash of what made it.")
    number: Annotated[int, Field(ge=0)] = Field(description="Order in which revisions were last to be run.")
    phase: RevisionPhase = Field(
        description="Serving: rolled out. RollingOut: being rolled out. ScalingDown: replaced, with pods left. Failed:"
        " given up, and paused or with pods left. RolledBack: given up, without pods. Kept: neither run nor desired."
    )
    created: Timestamp | None = Field(None, description="When it was first asked for.")
    reason: Annotated[str, Field(max_length=64)] | None = Field(None, description="Why it failed, as a stable word.")
    message: Text | None = Field(None, description="Why it failed, with the evidence.")
    last_termination: RevisionTermination | None = Field(
        None, description="How a pod of it, or a container there, ended last."
    )
    back_off: BackOff | None = Field(
        None, description="Tries that ended since a pod of it served, and when the next pod is made."
    )


class GaudiInferenceStatus(ApiModel):
    """What the operator saw and judged."""

    observed_generation: Generation = Field(0, description="Generation of the spec that this status is about.")
    phase: Word = Field(
        "Pending",
        description="One word: Pending, WarmingUp, Serving, RollingOut, Paused, RolledBack, ScaledToZero,"
        " SpecRefused, Stalled.",
    )
    ready: Annotated[str, Field(max_length=16)] = Field("0/0", description="Ready replicas of desired replicas.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        (),
        description="Judged facts: Ready, Reconciling, Stalled, Available, WarmedUp, PlanAccepted, and more.",
        json_schema_extra=list_map("type"),
    )
    replicas: Count = Field(0, description="Pods of all revisions.")
    updated_replicas: Count = Field(0, description="Pods of the current revision.")
    ready_replicas: Count = Field(0, description="Pods that take traffic, of any revision.")
    expected_ready_replicas: Count = Field(
        0,
        description="Pods that should take traffic: as many as did at once since replicas was last lowered, less what a"
        " rollout may take away. If readyReplicas is lower, the difference was lost.",
    )
    max_replicas: Count | None = Field(
        None, description="Replicas that the class allows at most, by their number and by their cards."
    )
    selector: Annotated[str, Field(max_length=1024)] = Field("", description="Label selector of the pods.")
    captured_percent: CapturedPercent = Field(
        CapturedPercent(),
        description="Captured graphs, the least over the serving pods of the current revision, or over all its pods"
        " while none serves.",
    )
    plan: PlanState | None = Field(None, description="What the plan of the spec takes; absent where none is possible.")
    buckets: Buckets | None = Field(None, description="Planned, warmed and captured buckets.")
    warmup: WarmupProgress | None = Field(None, description="Progress of warm-up.")
    memory: MemorySplit | None = Field(None, description="Memory split.")
    recompiles: Recompiles = Field(Recompiles(), description="Compiles on the request path.")
    recipe_cache: RecipeCacheState | None = Field(None, description="Recipe cache, where spec.recipeCache is enabled.")
    revision: Revisions = Field(Revisions(), description="Revisions by their part.")
    revisions: Annotated[tuple[RevisionStatus, ...], Field(max_length=MAX_REVISIONS)] = Field(
        (), description="The newest kept revisions, newest first."
    )
    endpoint: Text | None = Field(None, description="Address of the OpenAI API inside the cluster.")
    pods: Annotated[tuple[PodState, ...], Field(max_length=MAX_PODS)] = Field(
        (), description="Up to 20 pods, worst first."
    )
