"""The kind GaudiInference: group, version, names and printer columns stand with the class."""

from typing import Any

from pydantic import Field

from gaudi_operator.api.base import ApiModel, Rule, validated_by
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus

GROUP = "inference.gaudi.dev"
VERSION = "v1alpha1"
KIND = "GaudiInference"
PLURAL = "gaudiinferences"
SINGULAR = "gaudiinference"
SHORT_NAMES = ("gi",)
CATEGORIES = ("inference",)
"""Not "all": `kubectl delete all --all` would take every model of a namespace with it."""
API_VERSION = f"{GROUP}/{VERSION}"
MAX_NAME_LENGTH = 45
"""Child names add a revision and a pod's suffix, and names stand in labels of at most 63 characters."""

MAX_GROUP_NAME_LENGTH = 37
"""A revision, the number of a group, and the hash of the StatefulSet that its controller makes for the workers."""


def _column(name: str, kind: str, path: str, priority: int = 0, description: str = "") -> dict[str, Any]:
    """A column of `kubectl get`; priority 1 shows only with -o wide."""
    always = {"name": name, "type": kind, "jsonPath": path}
    # As the API server writes it back: what says nothing is left out, so that applying it again changes nothing.
    return always | {key: each for key, each in (("description", description), ("priority", priority)) if each}


PRINTER_COLUMNS = (
    _column("Engine", "string", ".spec.engine.name", description="vllm, torch, or sim, which runs no model."),
    _column("Phase", "string", ".status.phase", description="One word for the whole resource."),
    _column("Prompt%", "integer", ".status.capturedPercent.prompt", description="Captured prompt graphs."),
    _column("Decode%", "integer", ".status.capturedPercent.decode", description="Captured decode graphs."),
    _column("Warmup", "integer", ".status.warmup.percent", description="Warm-up done in percent."),
    _column("Ready", "string", ".status.ready", description="Ready replicas of desired replicas."),
    _column("ETA", "string", ".status.warmup.eta", 1, "Estimated end of warm-up."),
    _column("Revision", "string", ".status.revision.current", 1, "The desired revision."),
    _column("Recompiles", "integer", ".status.recompiles.sinceReady", 1, "Compiles while serving."),
    _column("Recipes", "string", ".status.recipeCache.phase", 1, "Whether pods start from kept recipes."),
    _column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1, "Why it is Ready or not."),
    _column("Age", "date", ".metadata.creationTimestamp"),
)


class GaudiInference(ApiModel):
    """A served model: spec is what the user asks for, status what the operator has seen."""

    model_config = validated_by(
        Rule(
            rule=f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
            message=f"metadata.name must be at most {MAX_NAME_LENGTH} characters: pods and labels add to it",
        ),
        Rule(
            rule=f"self.spec.parallelism.nodes == 1 || size(self.metadata.name) <= {MAX_GROUP_NAME_LENGTH}",
            message=f"metadata.name must be at most {MAX_GROUP_NAME_LENGTH} characters with spec.parallelism.nodes"
            " above 1: groups and their pods add more to it",
        ),
        Rule(
            rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must start with a letter and hold only a-z, 0-9 and '-': the Service has this name",
        ),
    )
    spec: GaudiInferenceSpec = Field(description="What is desired.")
    status: GaudiInferenceStatus | None = Field(None, description="What was seen.")
