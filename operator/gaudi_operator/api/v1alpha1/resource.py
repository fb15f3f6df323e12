"""The kind GaudiInference, with its group, version, names and printer columns."""

from typing import Any

from pydantic import Field

from gaudi_operator.api.base import ApiModel
from gaudi_operator.api.schema_keywords import SchemaRule, schema_config_with_rules
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
"""Names of children add a revision and the suffix of a pod. They are label values of at most 63 characters."""

MAX_GROUP_NAME_LENGTH = 37
"""Names of groups add a revision, the number of the group and the hash of the StatefulSet of its workers."""


def _printer_column(name: str, json_type: str, path: str, priority: int = 0, description: str = "") -> dict[str, Any]:
    """Return a column of `kubectl get`. A column with priority 1 appears only with `-o wide`."""
    column = {"name": name, "type": json_type, "jsonPath": path}
    # Omit empty values, because the API server drops empty values. Otherwise applying the definition again would report
    # a change.
    return column | {key: value for key, value in (("description", description), ("priority", priority)) if value}


PRINTER_COLUMNS = (
    _printer_column("Engine", "string", ".spec.engine.name", description="Engine: vllm, or sim, which runs no model."),
    _printer_column(
        "Status",
        "string",
        '.status.conditions[?(@.type=="Ready")].reason',
        description="Reason of the condition Ready.",
    ),
    _printer_column(
        "Prompt%",
        "integer",
        ".status.capturedPercent.prompt",
        description="Captured or executed prompt buckets in percent of the plan.",
    ),
    _printer_column(
        "Decode%",
        "integer",
        ".status.capturedPercent.decode",
        description="Captured or executed decode buckets in percent of the plan.",
    ),
    _printer_column("Warmup", "integer", ".status.warmup.percent", description="Progress of the warm-up in percent."),
    _printer_column("Ready", "integer", ".status.readyReplicas", description="Pods that receive traffic."),
    _printer_column("Desired", "integer", ".spec.replicas", description="Desired replicas."),
    _printer_column("ETA", "string", ".status.warmup.eta", 1, "Estimated end of the warm-up."),
    _printer_column("Revision", "string", ".status.revision.current", 1, "The desired revision."),
    _printer_column("Recompiles", "integer", ".status.recompiles.sinceReady", 1, "Compiles that requests waited for."),
    _printer_column("Recipes", "string", ".status.recipeCache.phase", 1, "State of the recipe cache."),
    _printer_column("Age", "date", ".metadata.creationTimestamp"),
)


class GaudiInference(ApiModel):
    """Model served on Intel Gaudi. Replicas receive traffic after the required graphs are captured."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule=f"size(self.metadata.name) <= {MAX_NAME_LENGTH}",
            message=f"metadata.name must be at most {MAX_NAME_LENGTH} characters, because longer names of pods are not"
            " valid label values",
        ),
        SchemaRule(
            rule=f"self.spec.parallelism.nodes == 1 || size(self.metadata.name) <= {MAX_GROUP_NAME_LENGTH}",
            message=f"metadata.name must be at most {MAX_GROUP_NAME_LENGTH} characters with spec.parallelism.nodes"
            " above 1, because longer names of groups and pods are not valid label values",
        ),
        SchemaRule(
            rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must start with a letter and contain only a-z, 0-9 and '-': the Service"
            " has this name",
        ),
    )
    spec: GaudiInferenceSpec = Field(description="Desired state of the model.")
    status: GaudiInferenceStatus | None = Field(
        None, description="Observed state of the model, written by the operator."
    )
