"""The import of an image from buildah into a node's containerd. Only new layers are copied."""

import subprocess
import tempfile
from pathlib import Path

from localcluster.cache import cache_dir
from localcluster.errors import LocalClusterError
from localcluster.images.images import export_image
from localcluster.progress import step


def load_image(tag: str, store: Path, import_command: list[str]) -> None:
    """Import `tag` into the containerd whose folder is `store`. The command `import_command` reads a tar archive.

    The image is written to a layout that already contains links to containerd's blobs, so buildah skips these blobs.
    The archive does not contain these blobs either, and containerd uses its own blobs. Layers stay uncompressed,
    because only then do buildah and containerd have the same blob for a layer.
    """
    with (
        tempfile.TemporaryDirectory(dir=cache_dir()) as folder,
        step(f"Loading {tag} into the node"),
    ):
        layout = Path(folder)
        _link_stored_blobs(layout / "blobs" / "sha256", store)
        export_image(tag, layout)
        for blob in (layout / "blobs" / "sha256").iterdir():
            if blob.is_symlink():
                blob.unlink()
        _import(layout, import_command)


def _link_stored_blobs(folder: Path, store: Path) -> None:
    folder.mkdir(parents=True)
    store_blobs = store / "io.containerd.content.v1.content" / "blobs" / "sha256"
    for blob in store_blobs.iterdir() if store_blobs.exists() else ():
        (folder / blob.name).symlink_to(blob)


def _import(layout: Path, import_command: list[str]) -> None:
    """Import the layout through a pipe, so that a large image does not take disk space twice."""
    with subprocess.Popen(["tar", "-C", str(layout), "-cf", "-", "."], stdout=subprocess.PIPE) as tar_process:
        process = subprocess.run(import_command, stdin=tar_process.stdout, capture_output=True, text=True, check=False)
        if tar_process.stdout:
            tar_process.stdout.close()
    if process.returncode or tar_process.returncode:
        raise LocalClusterError(f"Importing the image failed: {process.stderr.strip()}")
