"""The kind GaudiInferenceClass: defaults and limits of a platform team (docs/how-to/classes.md)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import AbsolutePath, ApiModel, ImageReference, KeyText, Labels, ObjectName, Quantity
from gaudi_operator.api.schema_keywords import list_map
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
    """Runtime images by card generation. Without an image, the image of the installation is used."""

    gaudi2: ImageReference | None = Field(None, description="Image for accelerator.generation gaudi2.")
    gaudi3: ImageReference | None = Field(None, description="Image for accelerator.generation gaudi3.")
    none: ImageReference | None = Field(None, description="Image for accelerator.generation none, the CPU.")


class ClassDefaults(ApiModel):
    """Values for fields that a resource does not set. A new revision contains these values."""

    images: DefaultImages = Field(DefaultImages(), description="Default of spec.server.image.")
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=8)] = Field(
        (), description="Default of spec.pod.imagePullSecrets.", json_schema_extra=list_map("name")
    )
    image_pull_policy: PullPolicy | None = Field(
        None,
        description="Default of spec.server.imagePullPolicy. It also replaces IfNotPresent, the default of that field.",
    )
    node_selector: Labels = Field({}, description="Default of spec.pod.nodeSelector.")
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        (), description="Default of spec.pod.tolerations."
    )
    priority_class_name: ObjectName | None = Field(None, description="Default of spec.pod.priorityClassName.")
    hugepages: Quantity | None = Field(
        None, description="Default of spec.accelerator.hugepages. Only for resources with cards."
    )
    resources: ContainerResources = Field(
        ContainerResources(),
        description="Default of request and limit of each resource for which spec.pod.resources has neither.",
    )
    shared_memory_size: Quantity | None = Field(None, description="Default of spec.pod.sharedMemorySize.")
    cache_size: Quantity | None = Field(None, description="Default of spec.pod.cacheSize.")
    tmp_size: Quantity | None = Field(None, description="Default of spec.pod.tmpSize.")
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = Field(
        None, description="Default of spec.pod.runAsUser. It also replaces 65532, the default of that field."
    )
    user_from_cluster: bool = Field(
        False,
        description="Whether the cluster assigns the user, as OpenShift does, of resources that set neither"
        " spec.pod.runAsUser nor userFromCluster.",
    )
    recipe_object_store: RecipeObjectStore | None = Field(
        None, description="Default of spec.recipeCache.objectStore. Only for resources with recipeCache.enabled."
    )
    tracing: Tracing | None = Field(None, description="Default of spec.tracing.")


class SourceKind(StrEnum):
    """A kind of model source that a class may allow, as in spec.model.source."""

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
    """Limits of resources of the class. A limit that is not set does not apply, except where permission is required.

    An empty list allows nothing. A list also gives permission to its entries (docs/how-to/pods.md).
    """

    images: Annotated[tuple[ImagePrefix, ...], Field(max_length=64)] | None = Field(
        None,
        description="Images that containers and models may use, by prefix. A prefix ends at the end of a part of the"
        " name.",
    )
    host_paths: Annotated[tuple[AbsolutePath, ...], Field(max_length=64)] | None = Field(
        None,
        description="Folders of nodes that may be mounted, with everything below. The installation must allow them as"
        " well.",
    )
    priority_classes: _Names | None = Field(
        None, description="Priority classes that pods may name. A pod without one is always allowed."
    )
    runtime_classes: _Names | None = Field(
        None, description="Runtime classes that pods may name. A pod without one is always allowed."
    )
    service_accounts: _Names | None = Field(
        None,
        description="Service accounts that pods may name. The account that the operator creates for a resource is"
        " always allowed.",
    )
    node_selector: Labels = Field(
        {}, description="Labels that every pod must have in its node selector, with these values."
    )
    tolerations: Annotated[tuple[KeyText, ...], Field(max_length=64)] | None = Field(
        None, description="Keys of taints that pods may tolerate, including those of the control plane."
    )
    environment_variables: Annotated[tuple[VariablePattern, ...], Field(max_length=128)] | None = Field(
        None,
        description="Variables that engine.env and the containers of spec.pod may set, by name or as PREFIX*. The"
        " variables that the operator writes are always allowed.",
    )
    annotation_prefixes: Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64)] | None = Field(
        None, description="Prefixes that keys of pod annotations may have."
    )
    extra_arguments: Annotated[tuple[ArgumentName, ...], Field(max_length=128)] | None = Field(
        None, description="Arguments that engine.extraArgs may have, by name with dashes."
    )
    trust_remote_code: bool = Field(True, description="Whether code of a checkpoint may run (--trust-remote-code).")
    max_replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Maximum number of replicas of a resource, also by its autoscaler."
    )
    max_cards: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Maximum number of cards of a resource, summed over its replicas."
    )
    model_sources: Annotated[tuple[SourceKind, ...], Field(max_length=4)] | None = Field(
        None, description="Kinds of places that models and adapters may come from."
    )
    api_key_required: bool = Field(False, description="Whether every resource must set server.apiKeySecretRef.")
    allow_all_clients: bool = Field(
        False,
        description="Whether networkAccess may open the model port to every namespace: allowAllClients true, enabled"
        " false, a client whose namespaceSelector has neither matchLabels nor an In expression, or an"
        f" ipBlock larger than a /{SHORTEST_PREFIX}.",
    )
    service_types: Annotated[tuple[ServiceType, ...], Field(max_length=3)] | None = Field(
        None, description="Types that Services may have. ClusterIP is always allowed."
    )
    service_annotation_prefixes: Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64)] | None = Field(
        None, description="Prefixes that keys of Service annotations may have."
    )
    max_recipe_cache_size: Quantity | None = Field(
        None, description="Maximum of recipeCache.size, for a claim that the operator creates."
    )
    max_surge: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] | None = Field(
        None,
        description="Maximum of rollout.maxSurge in pods. A percentage is relative to spec.replicas or"
        " autoscaling.maxReplicas, whichever is larger.",
    )
    max_stall_timeout_seconds: Annotated[int, Field(ge=1800, le=604_800)] | None = Field(
        None,
        description="Maximum of warmup.stallTimeoutSeconds. A pod without progress keeps its cards for that time.",
    )


class GaudiInferenceClassSpec(ApiModel):
    """Users, defaults and limits of the class."""

    controller: Controller = Field(
        DEFAULT_CONTROLLER,
        description="Installation that serves resources of the class: the value controller of its chart.",
    )
    default: bool = Field(
        False,
        description="Whether resources without spec.className have this class. At most one class may be the default.",
    )
    trial: bool = Field(
        False,
        description="Whether the limits only warn. They refuse nothing, and a resource beyond them has ClassApplied"
        " False with the reason ClassWouldRefuse. What requires permission is still refused without it.",
    )
    namespaces: LabelSelector | None = Field(
        None, description="Labels of the namespaces whose resources may have the class. All namespaces when left out."
    )
    defaults: ClassDefaults = Field(ClassDefaults(), description="Values for fields that resources leave out.")
    limits: ClassLimits = Field(ClassLimits(), description="Limits of resources of the class.")


class GaudiInferenceClass(ApiModel):
    """Defaults and limits that a platform team sets for GaudiInferences."""

    spec: GaudiInferenceClassSpec = Field(description="Users, defaults and limits of the class.")
