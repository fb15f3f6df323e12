"""The volumes of a pod and where the container sees them."""

from posixpath import dirname

from gaudi_operator.api.v1alpha1.model import ModelSource
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.manifests.metadata import Object
from gaudi_runtime.contract.ports import CACHE_PATH, CONFIG_PATH, MODEL_PATH

TEMPORARY_PATH = "/tmp"  # noqa: S108 - the mount point of a volume of the pod's own
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - as above


def volumes(spec: GaudiInferenceSpec, config_map: str) -> list[Object]:
    """The volumes; the root file system is read-only, so everything that is written has one."""
    shared = {"medium": "Memory", "sizeLimit": spec.pod.resources.shared_memory}
    return [
        {"name": "config", "configMap": {"name": config_map}},
        {"name": "model", **_model(spec.model.source)},
        {"name": "cache", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": shared},
    ]


def mounts(spec: GaudiInferenceSpec) -> list[Object]:
    """Where the container sees the volumes; a checkpoint is read-only unless the runtime itself brings it."""
    fetched = spec.model.source.hugging_face is not None
    return [
        {"name": "config", "mountPath": dirname(CONFIG_PATH), "readOnly": True},
        {"name": "model", "mountPath": MODEL_PATH, **({} if fetched else {"readOnly": True})},
        {"name": "cache", "mountPath": CACHE_PATH},
        {"name": "tmp", "mountPath": TEMPORARY_PATH},
        {"name": "shared-memory", "mountPath": SHARED_MEMORY_PATH},
    ]


def _model(source: ModelSource) -> Object:
    """The volume of the checkpoint. ValueError for a source that checks.py refuses before it comes here."""
    if claim := source.persistent_volume_claim:
        return {"persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True}}
    if image := source.oci_image:
        return {"image": {"reference": image.reference, "pullPolicy": image.pull_policy.value}}
    if folder := source.host_path:
        # No `type`: with one, a missing folder would keep the container from starting, and its report from saying so.
        return {"hostPath": {"path": folder.path}}
    if source.hugging_face:
        # Outlives a restart of the container, which goes on with the fetch; its space is the node's.
        return {"emptyDir": {}}
    raise ValueError("spec.model.source names nothing that a volume can be made of")
