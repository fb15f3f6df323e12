"""The kind GaudiInference: group, version, names and printer columns stand with the class."""

from dataclasses import dataclass

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
CATEGORIES = ("all", "inference")
API_VERSION = f"{GROUP}/{VERSION}"
MAX_NAME_LENGTH = 45
"""Child names add a revision and a pod's suffix, and names stand in labels of at most 63 characters."""

MAX_GROUP_NAME_LENGTH = 37
"""A revision, the number of a group, and the hash of the StatefulSet that its controller makes for the workers."""


@dataclass(frozen=True)
class PrinterColumn:
    """A column of `kubectl get`; priority 1 shows only with -o wide."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""


PRINTER_COLUMNS = (
    PrinterColumn("Phase", "string", ".status.phase", description="One word for the whole resource."),
    PrinterColumn("Prompt%", "integer", ".status.capturedPercent.prompt", description="Captured prompt graphs."),
    PrinterColumn("Decode%", "integer", ".status.capturedPercent.decode", description="Captured decode graphs."),
    PrinterColumn("Warmup", "integer", ".status.warmup.percent", description="Warm-up done in percent."),
    PrinterColumn("Ready", "string", ".status.ready", description="Ready replicas of desired replicas."),
    PrinterColumn("ETA", "string", ".status.warmup.eta", 1, "Estimated end of warm-up."),
    PrinterColumn("Revision", "string", ".status.revision.current", 1, "The desired revision."),
    PrinterColumn("Recompiles", "integer", ".status.recompiles.sinceReady", 1, "Compiles while serving."),
    PrinterColumn("Recipes", "string", ".status.recipeCache.phase", 1, "Whether pods start from kept recipes."),
    PrinterColumn("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1, "Why it is Ready or not."),
    PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
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
