"""Builds the files of a release from a commit, independently of the working tree.

Wheel, chart, manifests, krew archive, bundle and SBOM are reproducible, because all times are the time of the commit,
names are sorted, and no user is recorded. Images are not reproducible, because Debian's packages change between two
builds. Two archives of the same image are equal.
"""

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from localcluster.images import images
from localcluster.programs.build import helm
from scripts.chart_docs import ROOT
from scripts.release.bundle import bundle
from scripts.release.pins import pins
from scripts.release.sbom import sbom

MANIFESTS = ("deploy/operator.yaml", "deploy/argocd-cm.yaml")
IMAGES = {"operator": "gaudi-operator", "runtime": "gaudi-runtime"}
SBOMS = {"gaudi-operator": ("operator",), "gaudi-runtime": ("runtime", "torch"), "kubectl-gaudi": ("cli",)}
"""The files of requirements/ that pin the packages of each product."""
SUMS = "SHA256SUMS"
CLI_PINS = "cli-requirements.txt"
"""The file with the pinned requirements of the commands, for users who install the wheel without krew."""


@dataclass(frozen=True)
class Source:
    """The files of a commit in a folder, the version of the commit, and its time in seconds."""

    folder: Path
    version: str
    commit_time: int


def source(commit: str, folder: Path) -> Source:
    """Write the files of a commit into `folder`."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    log = subprocess.run(["git", "log", "-1", "--format=%ct", commit], cwd=ROOT, capture_output=True, check=True)
    chart = yaml.safe_load((folder / "charts" / "gaudi-operator" / "Chart.yaml").read_text())
    return Source(folder, str(chart["version"]), int(log.stdout))


def build(source: Source, out: Path, packages: Path, address: str, registry: str) -> None:
    """Write all reproducible files.

    `packages` is a folder that contains hatchling. `address` is the download address of the files. `registry` is the
    prefix of image names.
    """
    out.mkdir(parents=True, exist_ok=True)
    wheel = _wheel(source, out, packages)
    _chart(source, out)
    for path in MANIFESTS:
        (out / Path(path).name).write_bytes((source.folder / path).read_bytes())
    crds = sorted((source.folder / "crds").glob("*.yaml"))
    (out / "crds.yaml").write_text("---\n".join(crd.read_text() for crd in crds))
    for product, files in SBOMS.items():
        pinned = [pin for file in files for pin in pins((source.folder / "requirements" / f"{file}.txt").read_text())]
        (out / f"{product}.cdx.json").write_text(sbom(product, source.version, pinned, source.commit_time))
    (out / CLI_PINS).write_bytes((source.folder / "requirements" / "cli.txt").read_bytes())
    _krew(source, out, wheel, address)
    files = bundle(source.folder / "charts" / "gaudi-operator", crds, f"{registry.rstrip('/')}/", source.commit_time)
    (out / f"gaudi-operator-bundle-{source.version}.tar.gz").write_bytes(tarball(files, source.commit_time))


def _wheel(source: Source, out: Path, packages: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(packages), "SOURCE_DATE_EPOCH": str(source.commit_time)}
    subprocess.run(command, cwd=source.folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = out.glob("*.whl")
    return wheel


def _chart(source: Source, out: Path) -> None:
    """Package the chart with Helm, which uses the times of the files. These times are the time of the commit."""
    command = [str(helm() / "helm"), "package", str(source.folder / "charts" / "gaudi-operator"), "--destination"]
    subprocess.run([*command, str(out)], check=True, stdout=subprocess.DEVNULL)


def _krew(source: Source, out: Path, wheel: Path, address: str) -> None:
    """Write the archive for krew and its manifest, which names the same archive for all platforms."""
    files = {
        "LICENSE": (source.folder / "LICENSE").read_bytes(),
        "cli.txt": (source.folder / "requirements" / "cli.txt").read_bytes(),
        "kubectl-gaudi": (source.folder / "deploy" / "krew" / "kubectl-gaudi").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    archive = out / f"kubectl-gaudi-{source.version}.tar.gz"
    archive.write_bytes(tarball(files, source.commit_time))
    text = (source.folder / "deploy" / "krew" / "gaudi.yaml").read_text()
    replacements = {
        "VERSION": source.version,
        "ADDRESS": f"{address.rstrip('/')}/{archive.name}",
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    (out / "gaudi.yaml").write_text(re.sub(r"\$\{(\w+)\}", lambda match: replacements[match[1]], text))


def tarball(files: Mapping[str, bytes], mtime: int) -> bytes:
    """Return a reproducible .tar.gz. Files that begin with `#!` are executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), mtime
            member.mode = 0o755 if content.startswith(b"#!") else 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=mtime)


def save_images(targets: Sequence[str], version: str, out: Path) -> None:
    """Write archives of images (OCI layout). The images are built from the working tree, which must be at the tag."""
    for target in targets:
        tag = f"localhost/{IMAGES[target]}:{version}"
        images.build_image(target, tag, {"VERSION": version})
        layout = out / f"{IMAGES[target]}-{version}.oci"
        images.export_image(tag, layout)
        with tarfile.open(f"{layout}.tar", "w") as archive:
            for path in sorted(layout.rglob("*")):
                archive.add(path, path.relative_to(layout), recursive=False, filter=_without_user)
                if path.is_file():
                    path.unlink()
        _remove_folders(layout)


def _without_user(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member of an archive without the user and the time of the build."""
    return member.replace(mtime=0, uid=0, gid=0, uname="", gname="", deep=False)


def _remove_folders(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir()
    folder.rmdir()


def sums(out: Path) -> str:
    """Return the SHA-256 sums of all files in the format of `sha256sum --check`."""
    lines = []
    for path in sorted(entry for entry in out.iterdir() if entry.is_file() and entry.name != SUMS):
        with path.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)
