"""Small images made from files of this machine, written as OCI archives without an image builder."""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from localcluster.cache import ensure_cached
from localcluster.node.node_config import PAUSE_IMAGE
from localcluster.programs import build, debian
from localcluster.progress import step

COREDNS_IMAGE = f"localhost/coredns:{build.COREDNS}"
_MEDIA = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def busybox() -> Path:
    """Return the archive of the pause image, which also contains a shell with common commands for tests."""

    def make(folder: Path) -> None:
        # Do not install this package, because it conflicts with the package busybox, which many machines have.
        debian.unpack("busybox-static", folder)
        (program,) = folder.rglob("bin/busybox")
        applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
        links = {f"bin/{name}": "busybox" for name in applets.stdout.split() if name != "busybox"}
        layer = _layer({"bin/busybox": program}, links)
        _write(folder / "image.tar", PAUSE_IMAGE, layer, {"Cmd": ["/bin/sleep", "2147483647"]})

    return ensure_cached("image-busybox-1", make) / "image.tar"


def coredns() -> Path:
    """Return the archive of CoreDNS."""
    binary = build.coredns() / "coredns"

    def make(folder: Path) -> None:
        with step("Packing the CoreDNS image"):
            _write(folder / "image.tar", COREDNS_IMAGE, _layer({"coredns": binary}), {"Entrypoint": ["/coredns"]})

    return ensure_cached(f"image-{binary.parent.name}", make) / "image.tar"


def write_folder_image(archive: Path, tag: str, folder: Path) -> None:
    """Write an image with the files of `folder` and no command, for an image volume.

    All files are held in memory, so checkpoints must be small (some megabytes).
    """
    files = {str(file.relative_to(folder)): file for file in sorted(folder.rglob("*")) if file.is_file()}
    _write(archive, tag, _layer(files), {})


def _layer(files: Mapping[str, Path], links: Mapping[str, str] | None = None) -> bytes:
    """Return a layer without times and owners, so that equal files result in equal digests."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tmp_folder = tarfile.TarInfo("tmp")
        tmp_folder.type, tmp_folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp_folder)
        for name, path in files.items():
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if path.stat().st_mode & 0o111 else 0o644
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return buffer.getvalue()


def _write(archive: Path, name: str, layer: bytes, run_config: Mapping[str, object]) -> None:
    blobs: dict[str, bytes] = {}

    def add_blob(kind: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"{_MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    layer_descriptor = add_blob("layer.v1.tar", layer)
    machine = platform.machine()
    config = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": dict(run_config),
        "rootfs": {"type": "layers", "diff_ids": [layer_descriptor["digest"]]},
    }
    manifest = {"schemaVersion": 2, "mediaType": f"{_MEDIA}.manifest.v1+json"}
    manifest |= {"config": add_blob("config.v1+json", _json(config)), "layers": [layer_descriptor]}
    index_entry = add_blob("manifest.v1+json", _json(manifest)) | {"annotations": {"io.containerd.image.name": name}}
    files = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    files["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = _json({"schemaVersion": 2, "manifests": [index_entry]})
    with tarfile.open(archive, "w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
