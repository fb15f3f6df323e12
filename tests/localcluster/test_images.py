"""Images of the project's own Dockerfile."""

import json
import tarfile
from pathlib import Path

import pytest

from localcluster import Node
from localcluster.cache import cache_dir
from localcluster.images.images import Recipe, build_image, export_image, list_built_images, remove_replaced_images
from localcluster.sandbox.processes import wait_until

# Use a long timeout. With an empty cache, the build downloads the base image and the Python packages.
pytestmark = pytest.mark.timeout(900)
OF_THE_MACHINE = ("etc/apt/sources.list", "etc/hostname", "etc/hosts", "etc/pip.conf", "etc/resolv.conf")
TAG = "localhost/gaudi-operator:dev"


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator image as an OCI layout."""
    build_image("operator", TAG)
    layout = tmp_path_factory.mktemp("layout")
    export_image(TAG, layout)
    return layout


def blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def manifest(layout: Path) -> dict[str, list[dict[str, str]]]:
    index = json.loads((layout / "index.json").read_text())
    found: dict[str, list[dict[str, str]]] = json.loads(blob(layout, index["manifests"][0]["digest"]).read_text())
    return found


def test_image_contains_no_files_of_the_build_machine(layout: Path) -> None:
    files: dict[str, int] = {}
    for layer in manifest(layout)["layers"]:
        with tarfile.open(blob(layout, layer["digest"])) as content:
            files |= {member.name.removeprefix("./"): member.size for member in content}
    assert "etc/debian_version" in files
    assert [name for name in files if name.startswith(("mnt/", "media/"))] == []
    # The builder mounts files over some of these paths and leaves empty files in the image. Only files with content are
    # errors.
    assert [name for name in OF_THE_MACHINE if files.get(name)] == []


def test_image_has_no_environment_variables_of_the_build_machine(layout: Path) -> None:
    config = json.loads(blob(layout, manifest(layout)["config"]["digest"]).read_text())["config"]  # type: ignore[call-overload]
    assert [setting for setting in config["Env"] if "/mnt" in setting or "/media" in setting] == []


def test_existing_layer_is_not_exported_again(layout: Path, tmp_path: Path) -> None:
    known = tmp_path / "blobs" / "sha256"
    known.mkdir(parents=True)
    layers = [layer["digest"].removeprefix("sha256:") for layer in manifest(layout)["layers"]]
    for layer in layers:
        (known / layer).symlink_to(layout / "blobs" / "sha256" / layer)
    export_image(TAG, tmp_path)
    assert all((known / layer).is_symlink() for layer in layers)
    assert len(list(known.iterdir())) == len(layers) + 2


def test_replaced_image_is_removed_and_its_successor_stays(tmp_path: Path) -> None:
    dockerfile, content, tag = tmp_path / "Dockerfile", tmp_path / "content", "localhost/rebuilt:test"
    dockerfile.write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS rebuilt\nCOPY --from=content . /content\n")
    content.mkdir()
    ids = []
    for text in ("first", "second"):
        (content / "file").write_text(text)
        build_image("rebuilt", tag, recipe=Recipe(dockerfile, {"content": content}))
        ids.append(list_built_images()[tag].removeprefix("sha256:"))
    remove_replaced_images()
    stored = {folder.name for folder in (cache_dir() / "buildah" / "storage" / "overlay-images").iterdir()}
    assert [image in stored for image in ids] == [False, True]


def test_loaded_image_runs(node: Node, layout: Path) -> None:
    node.load_image(TAG)
    node.load_image(TAG)
    command = ["--image-pull-policy=Never", "--restart=Never", "--command", "--", "gaudi-operator", "--help"]
    node.kubectl("run", "operator", f"--image={TAG}", *command)
    phase = "jsonpath={.status.phase}"
    wait_until(
        lambda: node.kubectl("get", "pod", "operator", "-o", phase) in ("Succeeded", "Failed"), "the pod to end", 60
    )
    assert "usage" in node.kubectl("logs", "operator").lower()
