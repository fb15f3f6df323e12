"""The kind GaudiInferenceClass: defaults and limits of a platform team (docs/how-to/classes.md)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import AbsolutePath, ApiModel, ImageReference, KeyText, Labels, ObjectName, Quantity
from gaudi_operator.api.schema_keywords import list_map_keywords
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX, ServiceType
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources
from gaudi_operator.api.v1alpha1.pods.pod import SecretName
from gaudi_operator.api.v1alpha1.pods.scheduling import Toleration
from gaudi_operator.api.v1alpha1.rollout import MAX_REPLICAS
from gaudi_operator.api.v1alpha1.selectors import LabelSelector
from gaudi_operator.api.v1alpha1.tracing import TraceReceiver

KIND = "GaudiInferenceClass"
PLURAL = "gaudiinferenceclasses"
SINGULAR = "gaudiinferenceclass"
SHORT_NAMES = ("gic",)

Controller = Annotated[
    str, StringConstraints(min_length=3, max_length=250, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_./]+$")
]
DEFAULT_CONTROLLER = "inference.gaudi.dev/gaudi-operator"


class DefaultImages(ApiModel):
    """Runtime images by card generation. When left out: the image of the installation."""

    gaudi2: ImageReference | None = Field(None, description="Image for accelerator.generation gaudi2.")
    gaudi3: ImageReference | None = Field(None, description="Image for accelerator.generation gaudi3.")
    none: ImageReference | None = Field(None, description="Image for accelerator.generation none, the CPU.")


class Capability(StrEnum):
    """Linux capability that a class may give the runtime container."""

    SYS_NICE = "SYS_NICE"


class ClassDefaults(ApiModel):
    """Values for fields that a resource does not set, and settings of pods that only a class has.

    A new revision contains these values.
    """

    images: DefaultImages = Field(DefaultImages(), description="Default of spec.server.image.")
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=8)] = Field(
        (), description="Default of spec.pod.imagePullSecrets.", json_schema_extra=list_map_keywords("name")
    )
    image_pull_policy: PullPolicy | None = Field(None, description="Default of spec.server.imagePullPolicy.")
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
        description="Default of spec.pod.resources. Applies to CPU, memory or disk if neither a request nor a limit"
        " is set.",
    )
    shared_memory_size: Quantity | None = Field(None, description="Default of spec.pod.sharedMemorySize.")
    cache_size: Quantity | None = Field(
        None,
        description="Maximum size of /cache on the disk of the node. When left out, the ephemeral-storage limit"
        " applies. /cache contains compiled code of the engine and caches of libraries. A pod that writes more is"
        " evicted.",
    )
    tmp_size: Quantity | None = Field(
        None,
        description="Maximum size of /tmp on the disk of the node. When left out, the ephemeral-storage limit"
        " applies. /tmp contains temporary files and logs of the Gaudi software. A pod that writes more is evicted.",
    )
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = Field(
        None, description="Default of spec.pod.runAsUser."
    )
    user_from_cluster: bool = Field(
        False,
        description="Whether the cluster assigns the user and the groups of pods, as OpenShift does. If true, pods"
        " have no runAsUser, runAsGroup and fsGroup, and still must not run as root. Applies to resources without"
        " spec.pod.runAsUser if runAsUser of the class is not set.",
    )
    capabilities: Annotated[tuple[Capability, ...], Field(max_length=1)] = Field(
        (),
        description="Linux capabilities of the runtime container. When left out: none. SYS_NICE allows the container"
        " to bind memory to NUMA nodes. The Pod Security levels baseline and restricted reject SYS_NICE.",
    )
    tracing: TraceReceiver | None = Field(
        None, description="Receiver of traces. When left out: the receiver of the installation."
    )


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
    """Limits of resources of the class. A limit that is not set does not apply, unless a field requires permission.

    An empty list allows nothing. A list also permits its entries where permission is required (docs/how-to/pods.md).
    """

    images: Annotated[tuple[ImagePrefix, ...], Field(max_length=64)] | None = Field(
        None,
        description="Prefixes of images that containers and models may use. A prefix matches only whole parts of an"
        " image name.",
    )
    host_paths: Annotated[tuple[AbsolutePath, ...], Field(max_length=64)] | None = Field(
        None,
        description="Folders of nodes that pods may mount, including subfolders. The installation must also allow"
        " these folders.",
    )
    priority_classes: _Names | None = Field(
        None, description="Priority classes that pods may use. A pod without a priority class is always allowed."
    )
    runtime_classes: _Names | None = Field(
        None, description="Runtime classes that pods may use. A pod without a runtime class is always allowed."
    )
    service_accounts: _Names | None = Field(
        None,
        description="Service accounts that pods may use. The account that the operator creates for a resource is"
        " always allowed.",
    )
    node_selector: Labels = Field({}, description="Labels and values that the node selector of every pod must contain.")
    tolerations: Annotated[tuple[KeyText, ...], Field(max_length=64)] | None = Field(
        None, description="Keys of taints that pods may tolerate. Taints of the control plane require an entry."
    )
    environment_variables: Annotated[tuple[VariablePattern, ...], Field(max_length=128)] | None = Field(
        None,
        description="Variables that engine.env and the containers of spec.pod may set. An entry is a name or PREFIX*."
        " Variables that the operator sets are always allowed.",
    )
    annotation_prefixes: Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64)] | None = Field(
        None, description="Allowed prefixes of the keys of pod annotations."
    )
    extra_arguments: Annotated[tuple[ArgumentName, ...], Field(max_length=128)] | None = Field(
        None, description="Names of arguments that engine.extraArgs may contain, with the dashes."
    )
    trust_remote_code: bool = Field(
        True,
        description="Whether the engine may run code of a checkpoint (--trust-remote-code), or of files: settings that"
        " end in -parser-plugin, GC_KERNEL_PATH, HABANA_PLUGINS_LIB_PATH and HABANA_SCAL_BIN_PATH.",
    )
    max_replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None,
        description="Maximum number of replicas of a resource. Further replicas are not created. With 0, the resource"
        " is refused.",
    )
    max_cards: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None,
        description="Maximum number of cards of a resource, summed over its replicas. Further replicas are not"
        " created. A resource is refused if one replica needs more cards.",
    )
    model_sources: Annotated[tuple[SourceKind, ...], Field(max_length=4)] | None = Field(
        None, description="Kinds of sources that models and adapters may use."
    )
    api_key_required: bool = Field(False, description="Whether every resource must set server.apiKeySecretRef.")
    allow_all_clients: bool = Field(
        False,
        description="Whether networkAccess may open the model port to everyone: by from Everyone, by from"
        " Unmanaged, by a client whose namespaceSelector has neither matchLabels nor an In expression, or by an ipBlock"
        f" larger than a /{SHORTEST_PREFIX}.",
    )
    service_types: Annotated[tuple[ServiceType, ...], Field(max_length=3)] | None = Field(
        None, description="Types that Services may have. ClusterIP is always allowed."
    )
    service_annotation_prefixes: Annotated[tuple[AnnotationPrefix, ...], Field(max_length=64)] | None = Field(
        None, description="Allowed prefixes of the keys of Service annotations."
    )
    max_recipe_cache_size: Quantity | None = Field(
        None, description="Maximum of recipeCache.size. Applies to claims that the operator creates."
    )
    max_surge: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] | None = Field(
        None,
        description="Maximum of rollout.maxSurge, in pods. If rollout.maxSurge is a percentage, it refers to the"
        " larger of spec.replicas and autoscaling.maxReplicas.",
    )
    max_stall_timeout_seconds: Annotated[int, Field(ge=1800, le=604_800)] | None = Field(
        None,
        description="Maximum of warmup.stallTimeoutSeconds. A pod without progress keeps its cards until this timeout.",
    )


class Enforcement(StrEnum):
    """The effect of the limits of a class."""

    ENFORCE = "Enforce"
    WARN = "Warn"


class GaudiInferenceClassSpec(ApiModel):
    """Namespaces, defaults and limits of the class."""

    controller: Controller = Field(
        DEFAULT_CONTROLLER,
        description="Name of the installation that serves resources of the class. The chart value controller sets"
        " this name.",
    )
    default: bool = Field(
        False,
        description="Whether resources without spec.className use this class. At most one class may be the default.",
    )
    enforcement: Enforcement = Field(
        Enforcement.ENFORCE,
        description="Whether the limits refuse resources (Enforce), or only report them in the condition ClassApplied"
        " (Warn). Settings that need permission are always refused without permission.",
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Labels of the namespaces whose resources may use the class. When left out: all namespaces."
    )
    defaults: ClassDefaults = Field(ClassDefaults(), description="Values for fields that a resource does not set.")
    limits: ClassLimits = Field(ClassLimits(), description="Limits of resources of the class.")


class GaudiInferenceClass(ApiModel):
    """Defaults and limits that a platform team sets for GaudiInferences."""

    spec: GaudiInferenceClassSpec = Field(description="Namespaces, defaults and limits of the class.")
