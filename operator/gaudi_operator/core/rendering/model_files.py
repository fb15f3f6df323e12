"""The model files of a pod: folders of the checkpoint and adapters, and repositories that the runtime fetches.

See docs/how-to/model-sources.md.
"""

from posixpath import join, normpath

from gaudi_operator.api.v1alpha1.model import HuggingFaceSource, Model, ModelSource
from gaudi_runtime.contract.ports import (
    ADAPTERS_PATH,
    FETCH_PATH,
    MODEL_PATH,
)
from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.units import format_bytes


def checkpoint_folder(source: ModelSource) -> str:
    """Return the folder of the model's checkpoint inside the container. A hostPath is mounted at this folder.

    The runtime stores a fetched checkpoint in a subfolder that is named by repository and commit.
    """
    return model_folder(source, MODEL_PATH)


def adapter_mount_path(index: int) -> str:
    """Return the path at which the model files of the adapter with number `index` are mounted."""
    return f"{ADAPTERS_PATH}/{index}"


def model_folder(source: ModelSource, mount_path: str) -> str:
    """Return the folder of the model files inside the container. `mount_path` is the mount path of the source."""
    if source.hugging_face:
        return FETCH_PATH
    volume_source = source.persistent_volume_claim or source.oci_image
    return normpath(join(mount_path, volume_source.path)) if volume_source else mount_path


def hub_repositories(model: Model) -> tuple[HuggingFaceSource, ...]:
    """Return the repositories that the runtime fetches, for the checkpoint and for adapters."""
    sources = (model.source, *(adapter.source for adapter in model.lora.adapters))
    return tuple(source.hugging_face for source in sources if source.hugging_face)


def describe_fetch_progress(progress: FetchProgress) -> str:
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
