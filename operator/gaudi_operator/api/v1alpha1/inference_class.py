"""The kind GaudiInferenceClass: what the platform fills in, and what it allows (docs/how-to/classes.md)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import (
    AbsolutePath,
    ApiModel,
    ImageReference,
    KeyText,
    Labels,
    ObjectName,
    Quantity,
    list_map,
)
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX, ServiceType
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources
from gaudi_operator.api.v1alpha1.pods.pod import SecretName
from gaudi_operator.api.v1alpha1.pods.scheduling import Toleration
from gaudi_operator.api.v1alpha1.scaling import MAX_REPLICAS
from gaudi_operator.api.v1alpha1.selectors import LabelSelector
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.api.v1alpha1.warmup import RecipeObjectStore

KIND = "GaudiInferenceClass"
PLURAL = "gaudiinferenceclasses"
SINGULAR = "gaudiinferenceclass"
SHORT_NAMES = ("gic",)

Controller = Annotated[
    str, StringConstraints(min_length=3, max_length=250, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_./]+$")
]
DEFAULT_CONTROLLER = "inference.gaudi.dev/gaudi-operator"


class DefaultImages(ApiModel):
    """Runtime images by card generation; the installation's own where one is left out."""

    gaudi2: ImageReference | None = Field(None, description="For accelerator.generation gaudi2.")
    gaudi3: ImageReference | None = Field(None, description="For accelerator.generation gaudi3.")
    none: ImageReference | None = Field(None, description="For accelerator.generation none, the CPU.")


class ClassDefaults(ApiModel):
    """What a resource that says nothing of it gets. It becomes part of a revision when that is made."""

    images: DefaultImages = Field(DefaultImages(), description="In place of spec.server.image.")
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=8)] = Field(
        (), description="In place of spec.pod.imagePullSecrets.", json_schema_extra=list_map("name")
    )
    image_pull_policy: PullPolicy | None = Field(
        None,
        description="In place of spec.server.imagePullPolicy where that is IfNotPresent, which it is when left out.",
    )
    node_selector: Labels = Field({}, description="In place of spec.pod.nodeSelector.")
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        (), description="In place of spec.pod.tolerations."
    )
    priority_class_name: ObjectName | None = Field(None, description="In place of spec.pod.priorityClassName.")
    hugepages: Quantity | None = Field(
        None, description="In place of spec.accelerator.hugepages; only where there are cards."
    )
    resources: ContainerResources = Field(
        ContainerResources(),
        description="In place of request and limit of each resource that spec.pod.resources does not mention.",
    )
    shared_memory_size: Quantity | None = Field(None, description="In place of spec.pod.sharedMemorySize.")
    cache_size: Quantity | None = Field(None, description="In place of spec.pod.cacheSize.")
    tmp_size: Quantity | None = Field(None, description="In place of spec.pod.tmpSize.")
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = Field(
        None, description="In place of spec.pod.runAsUser where that is 65532, which it is when left out."
    )
    user_from_cluster: bool = Field(
        False, description="Whether the cluster assigns the user of resources that name none, as OpenShift does."
    )
    recipe_object_store: RecipeObjectStore | None = Field(
        None, description="In place of spec.recipeCache.objectStore, where recipeCache is enabled."
    )
    tracing: Tracing | None = Field(None, description="In place of spec.tracing.")


class SourceKind(StrEnum):
    """Where a model may come from, as spec.model.source names it."""

    HUGGING_FACE = "HuggingFace"
    CLAIM = "PersistentVolumeClaim"
    HOST_PATH = "HostPath"
    OCI_IMAGE = "OciImage"


ImagePrefix = Annotated[str, StringConstraints(min_length=1, max_length=512)]
VariablePattern = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?$")
]
AnnotationPrefix = Annotated[str, StringConstraints(min_length=1, max_length=317)]
ArgumentName = Annotated[str, StringConstraints(min_length=3, max_length=128, pattern=r"^--[A-Za-z][-A-Za-z0-9_]*$")]
_Names = Annotated[tuple[ObjectName, ...], Field(max_length=64)]


class ClassLimits(ApiModel):
    """The limits of resources of the class. A limit that is not set does not apply, except to what needs permission.

    See docs/how-to/pods.md.

    An empty list allows nothing. A list also gives permission: what it names is allowed.
    """

    images: Annotated[tuple[ImagePrefix, ...], Field(max_length=64)] | None = Field(
        None,
        description="Images of all containers and of models, by how their names begin; a prefix ends where a part of"
        " the name does.",
    )
    host_paths: Annotated[tuple[AbsolutePath, ...], Field(max_length=64)] | None = Field(
        None, description="Folders of nodes, and what is below; the installation must allow them as well."
    )
    priority_classes: _Names | None = Field(None, description="Priority classes; a pod without one is always allowed.")
    runtime_classes: _Names | None = Field(None, description="Runtime classes; a pod without one is always allowed.")
    service_accounts: _Names | None = Field(
        None, description="Service accounts besides the one that the operator makes for each resource."
    )
    node_selector: Labels = Field({}, description="Labels that every pod must select nodes by.")
    tolerations: Annotated[tuple[KeyText, ...], Field(max_length=64)] | None = Field(
        None, description="Keys of the taints that may be tolerated, those of the control plane among them."
    )
    environment_variables: Annotated[tuple[VariablePattern, ...], Field(max_length=128)] | None = Field(
        None,
        description="Variables of engine.env and of containers beside the runtime, by name or as PREFIX*; those that"
        " the operator itself writes are always allowed.",
    )
    annotation_prefixes: Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64)] | None = Field(
        None, description="How keys of annotations of pods may begin."
    )
    extra_arguments: Annotated[tuple[ArgumentName, ...], Field(max_length=128)] | None = Field(
        None, description="Names of arguments in engine.extraArgs, with their dashes."
    )
    trust_remote_code: bool = Field(True, description="Whether code of a checkpoint may run (--trust-remote-code).")
    max_replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Most replicas of a resource, those of its autoscaler too."
    )
    max_cards: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Most cards of a resource, over all its replicas."
    )
    model_sources: Annotated[tuple[SourceKind, ...], Field(max_length=4)] | None = Field(
        None, description="Where models and adapters may come from."
    )
    api_key_required: bool = Field(False, description="Whether every resource needs server.apiKeySecretRef.")
    allow_all_clients: bool = Field(
        False,
        description="Whether networkAccess may open the model port to every namespace: allowAllClients true, enabled"
        " false, a client whose namespaceSelector has neither matchLabels nor an In expression, or an ipBlock larger"
        f" than a /{SHORTEST_PREFIX}.",
    )
    service_types: Annotated[tuple[ServiceType, ...], Field(max_length=3)] | None = Field(
        None, description="Types of Services; ClusterIP is always allowed."
    )
    service_annotation_prefixes: Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64)] | None = Field(
        None, description="How keys of annotations of Services may begin."
    )
    max_recipe_cache_size: Quantity | None = Field(
        None, description="Largest recipeCache.size of a PVC that the operator makes."
    )
    max_surge: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] | None = Field(
        None,
        description="Largest rollout.maxSurge in pods. A percentage counts of spec.replicas or autoscaling.maxReplicas,"
        " whichever is larger.",
    )
    max_stall_timeout_seconds: Annotated[int, Field(ge=1800, le=604_800)] | None = Field(
        None,
        description="Largest warmup.stallTimeoutSeconds, for which a pod without progress keeps its cards.",
    )


class GaudiInferenceClassSpec(ApiModel):
    """Who may use the class, what it fills in, and what it allows."""

    controller: Controller = Field(
        DEFAULT_CONTROLLER,
        description="The installation that serves resources of the class: the chart's value controller.",
    )
    default: bool = Field(
        False, description="Whether resources without spec.className have this class. At most one class is the default."
    )
    namespaces: LabelSelector | None = Field(
        None, description="Namespaces whose resources may have the class, by their labels; all when left out."
    )
    defaults: ClassDefaults = Field(ClassDefaults(), description="What fills in the fields that resources leave out.")
    limits: ClassLimits = Field(ClassLimits(), description="What resources of the class may ask for.")


class GaudiInferenceClass(ApiModel):
    """What a platform team fills in and allows for GaudiInferences; only the operator reads it."""

    spec: GaudiInferenceClassSpec = Field(description="What the class says.")
