"""spec.warmup, spec.readiness and spec.recipeCache: what a pod prepares, when its gate opens, what later pods reuse."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import (
    ApiModel,
    ObjectName,
    Percent,
    Quantity,
    Rule,
    Seconds,
    SecretKey,
    meant_when_left_out,
    rules,
    validated_by,
)
from gaudi_operator.api.spelling import OwnWord
from gaudi_operator.api.v1alpha1.model import OciImageSource
from gaudi_runtime.contract.config import CaptureOrder, GraphTokens, HttpAddress

Order = Annotated[CaptureOrder, OwnWord()]


class S3Access(ApiModel):
    """How requests are signed for a bucket that is not public."""

    region: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[-a-z0-9]+$")] = Field(
        description="Region of the bucket; for stores without regions the one that they are configured with."
    )
    credentials_secret_name: ObjectName = Field(
        description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if they are"
        " temporary."
    )


PublicKey = Annotated[
    str,
    StringConstraints(
        max_length=1024, pattern=r"^-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]+\n-----END PUBLIC KEY-----\n?$"
    ),
]


class RecipeObjectStore(ApiModel):
    """A prefix of an object store, or any folder behind HTTPS, with the content of a volume of recipes."""

    model_config = validated_by(
        Rule(
            rule="!(has(self.s3) && has(self.tokenSecretRef))",
            message="spec.recipeCache.objectStore must name at most one of s3 and tokenSecretRef",
        ),
        Rule(
            rule="!has(self.tokenSecretRef) || self.url.startsWith('https://')",
            message="spec.recipeCache.objectStore.url must start with https:// where tokenSecretRef is set:"
            " others could read the token",
        ),
        Rule(
            rule="self.url.startsWith('https://') || self.?insecure.orValue(false)",
            message="spec.recipeCache.objectStore.url must start with https://, for recipes are code that pods run:"
            " anyone on the network path could change it; insecure true allows http://",
        ),
    )
    url: HttpAddress = Field(
        description="Address of the folder, for S3 that of its HTTPS end point with bucket and prefix.",
        json_schema_extra=rules(
            Rule(
                rule="self.startsWith('https://') || self.startsWith('http://')",
                message="must start with https:// or http://; of an s3:// or gs:// address name the HTTPS end point",
            )
        ),
    )
    token_secret_ref: SecretKey | None = Field(None, description="Secret with a token, which is sent as Bearer.")
    s3: S3Access | None = Field(None, description="Sign requests as S3 and compatible stores require.")
    timeout_seconds: Seconds = Field(300, description="Most that a start spends on it before it compiles instead.")
    insecure: bool | None = Field(
        None,
        description="Whether an address may begin with http://: anyone on the network path may then run code in the"
        " pods.",
    )
    public_key: PublicKey | None = Field(
        None,
        description="Key of ECDSA over P-256 in PEM. Recipes are used only where manifest.sig beside their manifest is"
        " its signature, as cosign sign-blob and openssl write it.",
    )


class Warmup(ApiModel):
    """What is prepared before a replica may take traffic."""

    enabled: bool = Field(True, description="False serves cold: the first request of every shape pays its compile.")
    graph_memory_percent: Percent = Field(
        10,
        description="How much of the usable memory is kept for graphs, in percent; 10 when left out.",
        json_schema_extra=meant_when_left_out,
    )
    prompt_graph_percent: Percent = Field(
        30,
        description="How much of the memory for graphs is offered to prompt graphs first, in percent; 30 when left"
        " out.",
        json_schema_extra=meant_when_left_out,
    )
    prompt_order: Order = Field(
        CaptureOrder.COVER_FIRST,
        description="CoverFirst compiles the fewest prompt buckets that hold every prompt first, then those that save"
        " most padding, so that a warm-up that ends early leaves no prompt without a warm bucket; graphs are captured"
        " as with MinTokens. The other orders compile the largest bucket first: MinTokens captures prompt graphs from"
        " the fewest tokens up, MaxBs from the largest batch down, LargestFirst the largest bucket first. CoverFirst"
        " when left out.",
        json_schema_extra=meant_when_left_out,
    )
    decode_order: Order = Field(
        CaptureOrder.COVER_FIRST,
        description="As promptOrder, for decode buckets; with CoverFirst, graphs are captured as with MaxBs. CoverFirst"
        " when left out.",
        json_schema_extra=meant_when_left_out,
    )
    max_graph_tokens: GraphTokens | None = Field(
        None,
        description="Prompts with more tokens, cached context included, run without a graph and count as not captured:"
        " lower readiness.minCapturedPromptPercent with it. Only in HpuGraphs with the vllm engine.",
    )
    fail_on_cold_shapes: bool = Field(
        False,
        description="Whether a batch whose padded shape was not warmed up is refused while a pod serves, instead of"
        " being compiled. The sim engine fails that request alone. vllm on a card (HpuGraphs and TorchCompile) ends its"
        " engine core: all requests of the pod fail, and the container starts and warms up again. Without effect"
        " elsewhere.",
    )
    time_budget_seconds: Seconds | None = Field(
        None,
        description="Warm-up begins no further bucket after this time, except the first ones of CoverFirst, which hold"
        " every request. The others are reported as left out, and requests are padded to larger warm buckets instead."
        " The thresholds of spec.readiness still count all planned buckets. No limit when left out.",
    )
    stall_timeout_seconds: Seconds = Field(
        1800,
        description="Time without any progress of a warm-up after which a pod counts as stalled and its container is"
        " restarted, in seconds.",
    )


class Shortfall(StrEnum):
    """What happens when a warmed-up pod stays below the captured percentages."""

    BLOCK = "Block"
    SERVE_AND_WARN = "ServeAndWarn"


class OnRecompiles(StrEnum):
    """What happens when requests of a serving pod wait for compiles."""

    IGNORE = "Ignore"
    WARN = "Warn"
    CLOSE_GATE = "CloseGate"


class Readiness(ApiModel):
    """When a pod's gate opens. Changing a threshold restarts nothing: only the operator judges it."""

    min_captured_prompt_percent: Percent = Field(
        100, description="Least share of planned prompt buckets whose graph is captured, in percent."
    )
    min_captured_decode_percent: Percent = Field(
        100, description="Least share of planned decode buckets whose graph is captured, in percent."
    )
    min_warmed_vision_percent: Percent = Field(
        100,
        description="Least share of planned vision buckets that are warmed, in percent; only of models that take"
        " images.",
    )
    on_shortfall: Shortfall = Field(
        Shortfall.BLOCK,
        description="Block keeps a pod that ends below the thresholds out of traffic; ServeAndWarn lets it serve. Block"
        " when left out.",
        json_schema_extra=meant_when_left_out,
    )
    on_recompiles: OnRecompiles = Field(
        OnRecompiles.WARN,
        description="Ignore counts recompiles in status only. Warn also sets the condition BucketCoverage. CloseGate"
        " also takes a pod with more than maxRecentRecompiles out of traffic, as long as the promised number of other"
        " pods serves. Warn when left out.",
        json_schema_extra=meant_when_left_out,
    )
    max_recent_recompiles: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10,
        description="Maximum number of recompiles of a pod within five minutes. CloseGate closes the gate of a pod with"
        " more, and opens it after five minutes without recompiles.",
    )


class AccessMode(StrEnum):
    """How a volume may be mounted: by pods of many nodes, or by those of one."""

    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE = "ReadWriteOnce"


class RetentionPolicy(StrEnum):
    """What becomes of a volume that nobody uses any more."""

    RETAIN = "Retain"
    DELETE = "Delete"


_NO_PVC_OF_OURS = "!oldSelf.enabled || has(oldSelf.existingClaim) || has(self.existingClaim)"
"""CEL: before or after there is no PVC that could keep what it was made with."""


class RecipeCache(ApiModel):
    """A volume of compiled recipes that later pods start from (docs/how-to/recipe-cache.md)."""

    model_config = validated_by(
        Rule(
            rule="!has(self.existingClaim) || !has(self.storageClassName)",
            message="spec.recipeCache.storageClassName is for the PVC that is made: leave it out with existingClaim",
        ),
        Rule(
            rule=f"{_NO_PVC_OF_OURS} || has(self.storageClassName) == has(oldSelf.storageClassName) &&"
            " (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="spec.recipeCache.storageClassName cannot be changed: a PVC keeps its class",
        ),
        Rule(
            rule=f"{_NO_PVC_OF_OURS} || self.accessMode == oldSelf.accessMode",
            message="spec.recipeCache.accessMode cannot be changed: a PVC keeps it",
        ),
        Rule(
            rule=f"{_NO_PVC_OF_OURS} || !self.enabled ||"
            " quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",
            message="spec.recipeCache.size cannot be lowered: a PVC only grows",
        ),
    )
    enabled: bool = Field(
        False,
        description="Whether pods share compiled recipes over a PVC. Without it each pod keeps its own, which are"
        " gone with it.",
    )
    existing_claim: ObjectName | None = Field(
        None,
        description="A PVC of this namespace that is used instead of one that the operator makes; several resources"
        " may share it.",
    )
    retention_policy: RetentionPolicy = Field(
        RetentionPolicy.DELETE,
        description="What happens to the PVC that the operator made when the cache is switched off or the resource"
        " is deleted: Delete removes it, Retain keeps it, and a resource of the same name finds its recipes there.",
    )
    size: Quantity = Field("20Gi", description="Size of the PVC; recipes may take nine tenths of it.")
    storage_class_name: ObjectName | None = Field(
        None, description="Storage class of the PVC; the cluster's default when left out."
    )
    access_mode: AccessMode = Field(
        AccessMode.READ_WRITE_MANY,
        description="ReadWriteOnce holds all pods on one node.",
    )
    max_age_days: Annotated[int, Field(ge=1, le=3650)] = Field(
        30, description="Recipes that no pod has started with for so long are removed, unless a pod runs with them."
    )
    oci_image: OciImageSource | None = Field(
        None, description="An image with the content of such a volume; pods look there when the PVC has no recipes."
    )
    object_store: RecipeObjectStore | None = Field(
        None, description="An object store with the same content; pods look there when neither has any."
    )
