"""GaudiInferenceSpec, and the rules that concern several of its sections."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ObjectName
from gaudi_operator.api.schema_keywords import SchemaRule, schema_config_with_rules
from gaudi_operator.api.spelling import cel_is_one_of_spellings
from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Parallelism
from gaudi_operator.api.v1alpha1.autoscaling import Autoscaling
from gaudi_operator.api.v1alpha1.bucketing import Bucketing
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Model
from gaudi_operator.api.v1alpha1.network import NOT_PUBLISHED, REACHED_FROM_OUTSIDE, NetworkAccess, Service
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.api.v1alpha1.rollout import Rollout
from gaudi_operator.api.v1alpha1.server import Server
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.api.v1alpha1.warmup import Readiness, RecipeCache, Warmup
from gaudi_runtime.contract.config import ExecutionMode

_WITHOUT_A_CARD = (ExecutionMode.TORCH_COMPILE, ExecutionMode.EAGER)

_POD_BLOCKS = ("affinity", "topologySpreadConstraints", "volumes", "volumeMounts", "initContainers", "sidecars")


class GaudiInferenceSpec(ApiModel):
    """Desired state of a model that is served on Gaudi."""

    model_config = schema_config_with_rules(
        NOT_PUBLISHED,
        REACHED_FROM_OUTSIDE,
        SchemaRule(
            rule="self.accelerator.generation != 'none' || !has(self.engine.executionMode) ||"
            f" self.engine.name == 'sim' || {cel_is_one_of_spellings('engine.executionMode', *_WITHOUT_A_CARD)}",
            message="spec.engine.executionMode must be TorchCompile or Eager when accelerator.generation is 'none', "
            "because only cards capture HPU graphs",
        ),
        SchemaRule(
            rule="self.accelerator.generation == 'none' || has(self.accelerator.resourceClaimTemplateName) ||"
            " self.parallelism.tensor * self.parallelism.pipeline * self.parallelism.data"
            " <= 8 * self.parallelism.nodes",
            message="spec.parallelism needs more than 8 cards per node (tensor x pipeline x data / nodes): lower"
            " tensor, pipeline or data, or raise nodes",
        ),
        SchemaRule(
            rule="self.?warmup.?graphMemoryPercent.orValue(10) > 0 || self.?readiness.?onShortfall.orValue('') =="
            " 'ServeAndWarn' || self.?readiness.?minCapturedPromptPercent.orValue(0) +"
            " self.?readiness.?minCapturedDecodePercent.orValue(0) == 0",
            message="spec.warmup.graphMemoryPercent must be above 0 if spec.readiness requires captured graphs: raise"
            " it, or set minCapturedPromptPercent and minCapturedDecodePercent to 0",
        ),
        *(
            SchemaRule(
                rule=f"self.parallelism.nodes == 1 || !self.?pod.?{field}.hasValue()",
                message=f"spec.pod.{field} is not available with parallelism.nodes above 1, because a LeaderWorkerSet"
                " with a wrong pod template is not refused: remove it",
            )
            for field in _POD_BLOCKS
        ),
        SchemaRule(
            rule="self.engine.blockSize <= self.model.maxModelLen",
            message="spec.engine.blockSize must be at most model.maxModelLen",
        ),
        SchemaRule(
            rule="self.engine.name != 'vllm' || self.engine.?chunkedPrefill.orValue(true) ||"
            " self.engine.?maxNumBatchedTokens.orValue(self.model.maxModelLen) >= self.model.maxModelLen",
            message="spec.engine.maxNumBatchedTokens must be at least model.maxModelLen when chunkedPrefill is false:"
            " a prompt is then processed in one step. Raise it, or set chunkedPrefill to true",
        ),
        SchemaRule(
            rule="self.engine.name != 'vllm' || self.engine.maxNumSeqs <= (has(self.engine.maxNumBatchedTokens) ?"
            " self.engine.maxNumBatchedTokens : self.model.maxModelLen)",
            message="spec.engine.maxNumSeqs must be at most maxNumBatchedTokens (maxModelLen when left out) with the"
            " vllm engine, because every running sequence needs one token per step: lower maxNumSeqs",
        ),
        SchemaRule(
            rule="self.engine.name != 'vllm' || self.accelerator.generation != 'none' ||"
            " !has(self.model.quantization) || self.model.quantization.method != 'inc'",
            message="spec.model.quantization.method inc needs a card: set accelerator.generation to gaudi2 or gaudi3",
        ),
        SchemaRule(
            rule="self.engine.prefixCaching || self.engine.?chunkedPrefill.orValue("
            "self.engine.?maxNumBatchedTokens.orValue(self.model.maxModelLen) < self.model.maxModelLen) ||"
            " !self.?bucketing.?prompt.?context.hasValue()",
            message="spec.bucketing.prompt.context requires engine.prefixCaching, engine.chunkedPrefill or an"
            " engine.maxNumBatchedTokens below model.maxModelLen, because other prompts have no context: remove it, or"
            " set one of them",
        ),
    )
    class_name: ObjectName | None = Field(
        None,
        description="Name of the GaudiInferenceClass whose defaults and limits apply. When left out: the default"
        " class, if there is one. A change creates a revision.",
    )
    model: Model = Field(
        description="Checkpoint of the model, and the model names for requests. A change creates a revision, which"
        " replaces the pods."
    )
    accelerator: Accelerator = Field(
        description="Cards and device memory of one pod. A change creates a revision, which replaces the pods."
    )
    parallelism: Parallelism = Field(
        Parallelism(),
        description="Distribution of one replica over cards and nodes. A change creates a revision, which replaces"
        " the pods.",
    )
    engine: Engine = Field(
        Engine(),
        description="Engine, execution mode and limits. A change creates a revision, which replaces the pods.",
    )
    server: Server = Field(
        Server(),
        description="Image of the runtime, and access to the model port. A change creates a revision, which replaces"
        " the pods.",
    )
    bucketing: Bucketing = Field(
        Bucketing(), description="Buckets that pods prepare. A change creates a revision, which replaces the pods."
    )
    warmup: Warmup = Field(
        Warmup(),
        description="Preparation of a pod before serving, and memory for graphs. A change creates a revision, which"
        " replaces the pods.",
    )
    readiness: Readiness = Field(
        Readiness(), description="Thresholds for the readiness of a pod. A change restarts no pod."
    )
    recipe_cache: RecipeCache | None = Field(
        None,
        description="Storage of compiled recipes that pods share. When left out, each pod has separate recipes, which"
        " are deleted with the pod. A change creates a revision, which replaces the"
        " pods. A change of retentionPolicy creates no revision.",
    )
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(
        1, description="Desired number of replicas. 0 stops serving. A change restarts no pod."
    )
    rollout: Rollout = Field(
        Rollout(), description="How a new revision replaces the old revision. A change restarts no pod."
    )
    autoscaling: Autoscaling | None = Field(
        None,
        description="HorizontalPodAutoscaler that writes replicas. When left out: no autoscaler. A change restarts no"
        " pod.",
    )
    service: Service = Field(Service(), description="Service of the replicas. A change restarts no pod.")
    network_access: NetworkAccess = Field(
        NetworkAccess(), description="Clients that may reach the pods. A change restarts no pod."
    )
    tracing: Tracing | None = Field(
        None,
        description="OpenTelemetry traces of requests. A change creates a revision, which replaces the pods.",
    )
    pod: Pod = Field(
        Pod(),
        description="Settings of the pods, with the field names of a Pod. A change creates a revision, which replaces"
        " the pods.",
    )
