"""The volumes of a pod and their mounts: model files, shared recipes, and volumes of the spec.

Model files are folders of the checkpoint and adapters, and repositories that the runtime fetches
(docs/how-to/model-sources.md). For shared recipes, this module also builds the PVC, and the ConfigMap that lists the
revisions that may still run (docs/how-to/recipe-cache.md).
"""

from collections.abc import Iterable
from posixpath import basename, dirname, join, normpath

from gaudi_operator.api.base import Quantity
from gaudi_operator.api.v1alpha1.model import (
    FetchCache,
    HuggingFaceSource,
    Model,
    ModelSource,
    OciImageSource,
    PullPolicy,
)
from gaudi_operator.api.v1alpha1.pods.volumes import VolumeMount
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import RecipeCache, RetentionPolicy
from gaudi_operator.core.inference import Inference, InferenceIdentity
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import RECIPE_PVC_SUFFIX
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.rendering.metadata import Object, child_with_metadata
from gaudi_runtime.contract.config import KeptRevisions
from gaudi_runtime.contract.ports import (
    ADAPTERS_PATH,
    CACHE_PATH,
    CONFIG_PATH,
    FETCH_PATH,
    KEPT_REVISIONS_PATH,
    MODEL_PATH,
    SEED_RECIPES_PATH,
    SHARED_RECIPES_PATH,
    TLS_PATH,
)
from gaudi_runtime.contract.report import FetchProgressReport
from gaudi_runtime.units import format_bytes


def checkpoint_volume_folder(source: ModelSource) -> str:
    """Return the folder of the model's checkpoint inside the container. A hostPath is mounted at this folder.

    The runtime stores a fetched checkpoint in a subfolder that is named by repository and commit.
    """
    return model_volume_folder(source, MODEL_PATH)


def adapter_volume_path(index: int) -> str:
    """Return the path at which the model files of the adapter with number `index` are mounted."""
    return f"{ADAPTERS_PATH}/{index}"


def model_volume_folder(source: ModelSource, mount_path: str) -> str:
    """Return the folder of the model files inside the container. `mount_path` is the mount path of the source."""
    if source.hugging_face:
        return FETCH_PATH
    volume_source = source.persistent_volume_claim or source.oci_image
    return normpath(join(mount_path, volume_source.path)) if volume_source else mount_path


def hub_repositories(model: Model) -> tuple[HuggingFaceSource, ...]:
    """Return the repositories that the runtime fetches, for the checkpoint and for adapters."""
    sources = (model.source, *(adapter.source for adapter in model.lora.adapters))
    return tuple(source.hugging_face for source in sources if source.hugging_face)


def describe_fetch_progress(progress: FetchProgressReport) -> str:
    """Return a sentence about the progress of fetching the model files."""
    if progress.waiting:
        return f"Waiting for another process that downloads the model: {format_bytes(progress.done_bytes)} are fetched."
    if not progress.total_bytes:
        return "Fetches the model."
    percent = progress.done_bytes * 100 // progress.total_bytes
    return (
        f"Downloading the model: {format_bytes(progress.done_bytes)} of {format_bytes(progress.total_bytes)} "
        f"({percent} %)."
    )


def recipe_pvc_name(owner: InferenceIdentity) -> str:
    """Return the name of the recipe PVC: `<resource>-recipes`."""
    return f"{owner.name}{RECIPE_PVC_SUFFIX}"


def recipe_pvc(owner: InferenceIdentity, cache: RecipeCache, live_pvc: Manifest | None) -> Object:
    """Return the recipe PVC.

    The PVC outlives every revision. It is deleted with the resource, unless its retention policy is Retain. If someone
    has enlarged `live_pvc`, the result has the larger size, because Kubernetes does not allow shrinking.
    """
    storage = max(filter(None, (cache.size, _requested_storage(live_pvc))), key=parse_quantity)
    spec: Object = {"accessModes": [cache.access_mode.value], "resources": {"requests": {"storage": storage}}}
    if cache.storage_class_name:
        spec["storageClassName"] = cache.storage_class_name
    retained = cache.retention_policy is RetentionPolicy.RETAIN
    return child_with_metadata(
        "v1", "PersistentVolumeClaim", recipe_pvc_name(owner), owner, {"spec": spec}, outlives_owner=retained
    )


def _requested_storage(live_pvc: Manifest | None) -> str | None:
    spec = live_pvc["spec"] if live_pvc else {}
    requested = spec.get("resources", {}).get("requests", {}).get("storage")
    return None if requested is None else str(requested)


def kept_revisions_config_map(owner: InferenceIdentity, names: Iterable[str]) -> Object:
    """Return the ConfigMap that lists the revisions whose recipes are kept.

    The ConfigMap has the name of the PVC. Its content changes while pods run.
    """
    text = KeptRevisions(resource=owner.uid, revisions=tuple(sorted(names))).model_dump_json()
    return child_with_metadata(
        "v1", "ConfigMap", recipe_pvc_name(owner), owner, {"data": {basename(KEPT_REVISIONS_PATH): text}}
    )


TEMPORARY_PATH = "/tmp"  # noqa: S108 - the mount point of a volume of the pod's own
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - as above


def pod_volumes(inference: Inference, config_map: str, defaults: InstallationDefaults) -> list[Object]:
    """Return the volumes of a pod. Every writable folder is a volume, because the root file system is read-only."""
    spec = inference.spec
    shared_memory = {"medium": "Memory", "sizeLimit": shared_memory_volume_size(spec)}
    model_source = _model_volume_source(spec.model.source)
    return [
        {"name": "config", "configMap": {"name": config_map}},
        *([{"name": "model", **model_source}] if model_source else []),
        *_adapter_volumes(spec.model),
        *([{"name": "fetched", **_fetched_model_source(spec.model.cache)}] if hub_repositories(spec.model) else []),
        *_certificate_volume(spec.server.tls_secret_name),
        *_recipe_volumes(spec.recipe_cache, recipe_pvc_name(inference.identity)),
        {"name": "cache", "emptyDir": _empty_dir_settings(defaults.cache_size)},
        {"name": "tmp", "emptyDir": _empty_dir_settings(defaults.tmp_size)},
        {"name": "shared-memory", "emptyDir": shared_memory},
        *(volume.model_dump(mode="json", by_alias=True) for volume in spec.pod.volumes),
    ]


def runtime_volume_mounts(spec: GaudiInferenceSpec) -> list[Object]:
    """Return the volume mounts of the runtime container. Volumes of the user are read-only by default."""
    model_source = _model_volume_source(spec.model.source)
    return [
        {"name": "config", "mountPath": dirname(CONFIG_PATH), "readOnly": True},
        *([{"name": "model", "mountPath": MODEL_PATH, "readOnly": True}] if model_source else []),
        *({**mount, "readOnly": True} for mount in _adapter_mounts(spec.model)),
        *([{"name": "fetched", "mountPath": FETCH_PATH}] if hub_repositories(spec.model) else []),
        # Mount the Secret as a folder. The kubelet never updates files that are mounted with `subPath`.
        *([{"name": "gaudi-tls", "mountPath": TLS_PATH, "readOnly": True}] if spec.server.tls_secret_name else []),
        *_recipe_mounts(spec.recipe_cache),
        {"name": "cache", "mountPath": CACHE_PATH},
        {"name": "tmp", "mountPath": TEMPORARY_PATH},
        {"name": "shared-memory", "mountPath": SHARED_MEMORY_PATH},
        *map(user_volume_mount, spec.pod.volume_mounts),
    ]


def user_volume_mount(mount: VolumeMount) -> Object:
    """Return the mount of a user's volume. It is read-only by default, while Kubernetes defaults to read-write."""
    fields = mount.model_dump(mode="json", by_alias=True)
    return {key: value for key, value in fields.items() if value is not False}


def shared_memory_volume_size(spec: GaudiInferenceSpec) -> Quantity:
    """Return the size of /dev/shm. If a pod has several ranks, the size includes the queues of each rank.

    See docs/how-to/running-vllm.md, Memory of a pod.
    """
    ranks = spec.parallelism.ranks_per_pod
    queues = ranks if ranks > 1 else 0
    return spec.pod.shared_memory_size or f"{1024 + 512 * queues}Mi"


def _adapter_volumes(model: Model) -> list[Object]:
    sources = ((index, _model_volume_source(adapter.source)) for index, adapter in enumerate(model.lora.adapters))
    return [{"name": f"adapter-{index}", **source} for index, source in sources if source]


def _adapter_mounts(model: Model) -> list[Object]:
    return [
        {"name": f"adapter-{index}", "mountPath": adapter_volume_path(index)}
        for index, adapter in enumerate(model.lora.adapters)
        if _model_volume_source(adapter.source)
    ]


def _certificate_volume(secret_name: str | None) -> list[Object]:
    # The volume is not optional. The kubelet then waits until cert-manager has created the Secret, and reports that it
    # waits.
    return [{"name": "gaudi-tls", "secret": {"secretName": secret_name}}] if secret_name else []


def _recipe_volumes(cache: RecipeCache | None, pvc_name: str) -> list[Object]:
    if cache is None:
        return []
    seed = [{"name": "seed-recipes", **_image_volume_source(cache.oci_image)}] if cache.oci_image else []
    # This ConfigMap is optional, because a pod can start without it. Without the list of kept revisions, the pod
    # removes no recipes.
    kept_revisions = {"name": "kept-revisions", "configMap": {"name": pvc_name, "optional": True}}
    pvc_source = {"claimName": cache.existing_claim or pvc_name}
    return [{"name": "recipes", "persistentVolumeClaim": pvc_source}, kept_revisions, *seed]


def _recipe_mounts(cache: RecipeCache | None) -> list[Object]:
    if cache is None:
        return []
    seed = {"name": "seed-recipes", "mountPath": SEED_RECIPES_PATH, "readOnly": True}
    kept_revisions = {"name": "kept-revisions", "mountPath": dirname(KEPT_REVISIONS_PATH), "readOnly": True}
    return [{"name": "recipes", "mountPath": SHARED_RECIPES_PATH}, kept_revisions, *([seed] if cache.oci_image else [])]


def _image_volume_source(image: OciImageSource) -> Object:
    """Return an image volume, which is always read-only. The kubelet pulls the image only if the node lacks it."""
    return {"image": {"reference": image.reference, "pullPolicy": PullPolicy.IF_NOT_PRESENT.value}}


def _model_volume_source(source: ModelSource) -> Object | None:
    """Return the read-only volume source of a model, or None if the runtime fetches the model.

    Raises ValueError for a source that admission/spec_checks.py should have refused.
    """
    if claim := source.persistent_volume_claim:
        return {"persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True}}
    if image := source.oci_image:
        return _image_volume_source(image)
    if folder := source.host_path:
        # Set no `type`. If the folder is missing, the container then still starts and can report the fault.
        return {"hostPath": {"path": folder.path}}
    if source.hugging_face:
        return None
    raise ValueError("spec.model.source has no volume source")


def _fetched_model_source(cache: FetchCache) -> Object:
    """Return the volume of a fetched model, which is a PVC or an emptyDir.

    A PVC outlives the pod. An emptyDir outlives only the containers of the pod.
    """
    if cache.existing_claim:
        return {"persistentVolumeClaim": {"claimName": cache.existing_claim}}
    return {"emptyDir": _empty_dir_settings(cache.size_limit)}


def _empty_dir_settings(size: Quantity | None) -> Object:
    return {"sizeLimit": size} if size else {}
