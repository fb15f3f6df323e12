"""GaudiInferenceSpec: everything that a user may say."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ObjectName, Rule, validated_by
from gaudi_operator.api.spelling import says
from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Parallelism
from gaudi_operator.api.v1alpha1.autoscaling import Autoscaling
from gaudi_operator.api.v1alpha1.bucketing import Bucketing
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Model
from gaudi_operator.api.v1alpha1.network import NOT_PUBLISHED, REACHED_FROM_OUTSIDE, NetworkAccess, Service
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.api.v1alpha1.scaling import Rollout
from gaudi_operator.api.v1alpha1.server import Server
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.api.v1alpha1.warmup import Readiness, RecipeCache, Warmup
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import ExecutionMode

_WITHOUT_A_CARD = (ExecutionMode.TORCH_COMPILE, ExecutionMode.EAGER)


def _not_with_torch(asked: str, path: str) -> Rule:
    """Refuses what the vllm engine offers, and the simulation with it, but not the torch engine."""
    return Rule(
        rule=f"self.engine.name != 'torch' || !({asked})",
        message=f"spec.{path} is not offered by the torch engine: use engine vllm",
    )


class GaudiInferenceSpec(ApiModel):
    """A model that is served on Gaudi: every replica takes traffic once its graphs are captured."""

    model_config = validated_by(
        NOT_PUBLISHED,
        REACHED_FROM_OUTSIDE,
        Rule(
            rule="self.accelerator.generation != 'none' || !has(self.engine.executionMode) ||"
            f" self.engine.name == 'sim' || {says('engine.executionMode', *_WITHOUT_A_CARD)}",
            message="spec.engine.executionMode must be TorchCompile or Eager when accelerator.generation is none:"
            " there is no card to capture HPU graphs on",
        ),
        Rule(
            rule="self.accelerator.generation == 'none' || has(self.accelerator.resourceClaimTemplateName) ||"
            " self.parallelism.tensor * self.parallelism.pipeline * self.parallelism.data"
            " <= 8 * self.parallelism.nodes",
            message="spec.parallelism asks for more than 8 cards of a node: lower tensor, pipeline or data,"
            " or raise nodes",
        ),
        Rule(
            rule="self.engine.blockSize <= self.model.maxModelLen",
            message="spec.engine.blockSize must be at most model.maxModelLen",
        ),
        Rule(
            rule="self.engine.name != 'torch' || self.parallelism.tensor * self.parallelism.pipeline *"
            " self.parallelism.data == 1",
            message="spec.parallelism must be 1 in every direction with the torch engine: use engine vllm",
        ),
        _not_with_torch("has(self.model.quantization)", "model.quantization"),
        _not_with_torch("has(self.engine.slidingWindowSlices)", "engine.slidingWindowSlices"),
        Rule(
            rule=f"!has(self.engine.slidingWindowSlices) || !{says('bucketing.strategy', Strategy.OPTIMAL)}",
            message="spec.engine.slidingWindowSlices does not go with bucketing.strategy Optimal, which plans queries"
            " of any length: use another strategy",
        ),
        _not_with_torch("self.warmup.failOnColdShapes", "warmup.failOnColdShapes"),
        _not_with_torch("has(self.model.adapters) && self.model.adapters.size() > 0", "model.adapters"),
        _not_with_torch(
            "has(self.model.itemsPerPrompt) && (has(self.model.itemsPerPrompt.image) ||"
            " has(self.model.itemsPerPrompt.video) || has(self.model.itemsPerPrompt.audio))",
            "model.itemsPerPrompt",
        ),
        _not_with_torch("has(self.warmup.maxGraphTokens)", "warmup.maxGraphTokens"),
        _not_with_torch("!self.engine.?chunkedPrefill.orValue(true)", "engine.chunkedPrefill false"),
        Rule(
            rule="self.engine.name != 'vllm' || self.engine.?chunkedPrefill.orValue(true) ||"
            " self.engine.?maxNumBatchedTokens.orValue(self.model.maxModelLen) >= self.model.maxModelLen",
            message="spec.engine.maxNumBatchedTokens must be at least model.maxModelLen when chunkedPrefill is false:"
            " a longer prompt would fit no step",
        ),
        Rule(
            rule="self.engine.name != 'vllm' || self.engine.maxNumSeqs <= (has(self.engine.maxNumBatchedTokens) ?"
            " self.engine.maxNumBatchedTokens : self.model.maxModelLen)",
            message="spec.engine.maxNumSeqs must be at most maxNumBatchedTokens (maxModelLen when left out) with the"
            " vllm engine: every running sequence takes a token of a step",
        ),
        Rule(
            rule="self.engine.name != 'vllm' || self.accelerator.generation != 'none' ||"
            " !has(self.model.quantization) || self.model.quantization.method != 'inc'",
            message="spec.model.quantization.method inc needs a card: set accelerator.generation to gaudi2 or gaudi3",
        ),
        Rule(
            rule="self.engine.prefixCaching || self.engine.?chunkedPrefill.orValue("
            "self.engine.?maxNumBatchedTokens.orValue(self.model.maxModelLen) < self.model.maxModelLen) ||"
            " !self.?bucketing.?prompt.?context.hasValue()",
            message="spec.bucketing.prompt.context needs engine.prefixCaching, engine.chunkedPrefill or an"
            " engine.maxNumBatchedTokens below model.maxModelLen: without them prompts have no context",
        ),
    )
    class_name: ObjectName | None = Field(
        None,
        description="GaudiInferenceClass that fills in what is left out and limits the rest; the default class, if"
        " there is one, when left out.",
    )
    model: Model = Field(description="The checkpoint, and the names under which it is served.")
    accelerator: Accelerator = Field(description="The cards and memory of one pod.")
    parallelism: Parallelism = Field(Parallelism(), description="How one replica is spread over cards and nodes.")
    engine: Engine = Field(Engine(), description="The engine, its mode and its limits.")
    server: Server = Field(Server(), description="The image of the runtime, and its model port.")
    bucketing: Bucketing = Field(Bucketing(), description="Which shapes are prepared.")
    warmup: Warmup = Field(Warmup(), description="What is prepared before traffic, and with how much memory.")
    readiness: Readiness = Field(Readiness(), description="When a pod's gate opens.")
    recipe_cache: RecipeCache = Field(RecipeCache(), description="A volume of compiled recipes.")
    replicas: Annotated[int, Field(ge=0, le=1000)] = Field(1, description="Desired replicas; 0 stops serving.")
    rollout: Rollout = Field(Rollout(), description="How a new revision replaces the old one.")
    autoscaling: Autoscaling | None = Field(None, description="A HorizontalPodAutoscaler that writes replicas.")
    service: Service = Field(Service(), description="The Service in front of the replicas.")
    network_access: NetworkAccess = Field(NetworkAccess(), description="Who may reach the pods.")
    tracing: Tracing | None = Field(
        None, description="Where its pods send traces by OpenTelemetry; where the installation says when left out."
    )
    pod: Pod = Field(Pod(), description="Settings of the pods.")
