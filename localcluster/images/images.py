"""The build of the project's images with buildah. Each layer is built once."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.cache import cache_dir, exclusive
from localcluster.errors import LocalClusterError
from localcluster.images import build_settings
from localcluster.programs import debian
from localcluster.progress import step
from localcluster.sandbox.sandbox import run_bound

BASE_IMAGE = f"localhost/debian:{build_settings.SUITE}-slim"
# The constants are the seconds that a first build takes on two cores, with another build at the same time.
BASE_SECONDS = 35
_IMAGE_SECONDS = {"operator": 40, "runtime": 160}
_PROJECT = Path(__file__).parents[2]
# Debian's slim images omit these folders. dpkg then omits them in later layers too.
_DOCUMENTATION = ("doc", "man", "info", "locale", "lintian", "groff", "linda")


@dataclass(frozen=True)
class Recipe:
    """A Dockerfile, and the additional folders from which it copies, by name."""

    dockerfile: Path = _PROJECT / "Dockerfile"
    folders: Mapping[str, Path] = field(default_factory=dict)


def build_image(target: str, tag: str, arguments: Mapping[str, str] | None = None, recipe: Recipe = Recipe()) -> None:
    """Build the `target` of `recipe` as `tag` with build `arguments`, unless `tag` was built from the same inputs.

    Unchanged layers are reused.
    """
    if is_up_to_date(target, tag, arguments, recipe):
        return
    make_base_image()
    settings_folder = cache_dir() / "buildah" / "settings"
    is_first_build = tag not in list_built_images()
    with exclusive(cache_dir() / "locks" / "buildah"):
        record, inputs_hash = _record_file(tag), _hash_inputs(target, arguments, recipe)
        record.unlink(missing_ok=True)
        build_settings.write_settings(settings_folder)
        dockerfile = settings_folder.with_name("Dockerfile")
        dockerfile.write_text(build_settings.add_settings(recipe.dockerfile.read_text(), settings_folder))
        command = ["build", "--layers", "--isolation", "chroot", "--network", "host", "--pull-never"]
        command += ["--volume", f"{settings_folder}:{build_settings.MOUNT}:ro"]
        command += ["--volume", f"{build_settings.package_cache()}:{build_settings.CACHE_MOUNT}:rw"]
        command += ["--file", str(dockerfile), "--tag", tag, "--target", target]
        for name, value in {"BASE_IMAGE": BASE_IMAGE, **(arguments or {})}.items():
            command += ["--build-arg", f"{name}={value}"]
        for name, folder in recipe.folders.items():
            command += ["--build-context", f"{name}={folder}"]
        with step(f"Building the {target} image", first_build_seconds(target) if is_first_build else 0):
            _buildah(*command, str(_PROJECT))
        record.parent.mkdir(exist_ok=True)
        record.write_text(f"{list_built_images()[tag]} {inputs_hash}")


def is_up_to_date(target: str, tag: str, arguments: Mapping[str, str] | None = None, recipe: Recipe = Recipe()) -> bool:
    """Return True if the image `tag` was built from the same inputs."""
    record = _record_file(tag)
    if not record.exists():
        return False
    return record.read_text() == f"{list_built_images().get(tag)} {_hash_inputs(target, arguments, recipe)}"


def _record_file(tag: str) -> Path:
    """Return the file with the ID of the image `tag` and the hash of its inputs.

    The file is deleted with the images.
    """
    return cache_dir() / "buildah" / "made-of" / tag.replace("/", "_")


def _hash_inputs(target: str, arguments: Mapping[str, str] | None, recipe: Recipe) -> str:
    """Return a hash of all inputs of a build: Dockerfile, files that .dockerignore allows, arguments and folders."""
    digest = hashlib.sha256(json.dumps([target, sorted((arguments or {}).items())]).encode())
    patterns = (_PROJECT / ".dockerignore").read_text().splitlines()
    context_paths = [_PROJECT / line.removeprefix("!") for line in patterns if line.startswith("!")]
    _add_files(digest, recipe.dockerfile, recipe.dockerfile.parent)
    for path in sorted(context_paths):
        _add_files(digest, path, _PROJECT)
    for _, folder in sorted(recipe.folders.items()):
        _add_files(digest, folder, folder)
    return digest.hexdigest()


def _add_files(digest: "hashlib._Hash", path: Path, root: Path) -> None:
    """Add the names (relative to `root`), modes and contents of files to a hash."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and file.suffix != ".pyc":
            digest.update(f"{file.relative_to(root)} {file.stat().st_mode}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())


def first_build_seconds(target: str) -> float:
    """Return the seconds of the first build of the Dockerfile's `target`, or 0 if the build was not measured."""
    return _IMAGE_SECONDS.get(target, 0)


def list_built_images() -> dict[str, str]:
    """Return the names and IDs of the images that were built before."""
    if debian.missing(debian.IMAGES) or not _storage().exists():
        return {}
    lines = _buildah("images", "--no-trunc", "--format", "{{.Name}}:{{.Tag}} {{.ID}}").splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def export_image(tag: str, layout: Path) -> None:
    """Write an image into an OCI layout, uncompressed and without blobs that the layout already has."""
    source = f"containers-storage:[overlay@{_storage()}+{_run_folder()}]{tag}"
    options = ["--quiet", "--format", "oci", "--dest-oci-accept-uncompressed-layers"]
    with exclusive(cache_dir() / "locks" / "buildah"):
        _run_privately("skopeo", "copy", *options, source, f"oci:{layout}:{tag}")


def _buildah(*arguments: str) -> str:
    storage = ["--root", str(_storage()), "--runroot", str(_run_folder()), "--storage-driver", "overlay"]
    return _run_privately("buildah", *storage, *arguments)


def _run_privately(*command: str) -> str:
    """Run a command on our image storage and return its output. Raises LocalClusterError with its error output."""
    _run_folder().mkdir(parents=True, exist_ok=True)
    mount_command = ["sh", "-c", 'mount -t tmpfs private "$0" && exec "$@"', str(_run_folder())]
    process = run_bound([*mount_command, *command])
    if process.returncode:
        last_lines = "\n".join((process.stdout + process.stderr).strip().splitlines()[-15:])
        raise LocalClusterError(f"`{command[0]}` failed: {last_lines}")
    return process.stdout.strip()


def remove_replaced_images() -> None:
    """Remove the layers that no named image has, and the containers of builds that were killed.

    Otherwise, the disk would fill, and each call of buildah would become slower.
    """
    with exclusive(cache_dir() / "locks" / "buildah"):
        _buildah("rmi", "--prune", "--force")


def remove_layers() -> None:
    """Remove all built images and layers, so that the next build starts without a cache."""
    with exclusive(cache_dir() / "locks" / "buildah"):
        shutil.rmtree(cache_dir() / "buildah", ignore_errors=True)


def _storage() -> Path:
    return cache_dir() / "buildah" / "storage"


def _run_folder() -> Path:
    return cache_dir() / "buildah" / "run"


def make_base_image() -> None:
    """Create the Debian base image if it is missing, and install the image builder."""
    debian.require(debian.IMAGES)
    with exclusive(cache_dir() / "locks" / "buildah"):
        if BASE_IMAGE in list_built_images():
            return
        with step("Making the Debian base image", BASE_SECONDS), tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root"
            _debootstrap(root)
            _remove_extras(root)
            container = _buildah("from", "scratch")
            _buildah("add", "--quiet", container, str(root), "/")
            _buildah("config", "--cmd", '["bash"]', container)
            _buildah("commit", "--quiet", "--rm", container, BASE_IMAGE)


def _debootstrap(root: Path) -> None:
    process = run_bound(
        ["debootstrap", "--variant=minbase", build_settings.SUITE, str(root), build_settings.debian_mirror()]
    )
    if process.returncode:
        output = " ".join(process.stdout.strip().splitlines()[-3:])
        raise LocalClusterError(f"debootstrap failed ({output}): check that this machine reaches its Debian mirror.")


def _remove_extras(root: Path) -> None:
    """Remove documentation, and files about this machine's access to its package mirror."""
    for name in _DOCUMENTATION:
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    dpkg_rules = "".join(f"path-exclude /usr/share/{name}/*\n" for name in _DOCUMENTATION)
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(dpkg_rules)
    (root / "etc/apt/apt.conf.d/slim").write_text('Acquire::Languages "none";\n')
    for path in ("etc/apt/sources.list", "etc/resolv.conf", "etc/hostname", "var/log/bootstrap.log"):
        (root / path).unlink(missing_ok=True)
    for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
        for file in (root / folder).glob("*"):
            if file.is_file():
                file.unlink()
