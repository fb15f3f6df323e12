"""The images of our Dockerfile: compressed size, user and base image."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from localcluster.cache import ensure_cached
from localcluster.images.images import build_image, export_image

pytestmark = pytest.mark.timeout(1800)  # the first build downloads torch

MEGABYTE = 1_000_000
OPERATOR, FOR_CARDS = "localhost/gaudi-operator:dev", "localhost/gaudi-runtime-hpu:stand-in"


def blob(layout: Path, digest: str) -> Path:
    """Return the file of a blob in an OCI layout."""
    return layout / "blobs" / digest.replace(":", "/")


def manifest_of(layout: Path) -> dict[str, Any]:
    """Return the manifest of the only image in an OCI layout."""
    (image,) = json.loads((layout / "index.json").read_text())["manifests"]
    return dict(json.loads(blob(layout, image["digest"]).read_text()))


def compressed_size(layer: Path) -> int:
    """Return the compressed size of a layer in bytes, as registries store the layer.

    The size of each layer is computed only once.
    """

    def compress(folder: Path) -> None:
        packer = zlib.compressobj(wbits=31)
        with layer.open("rb") as file:
            sizes = [len(packer.compress(part)) for part in iter(lambda: file.read(1 << 20), b"")]
        (folder / "bytes").write_text(str(sum(sizes) + len(packer.flush())))

    return int((ensure_cached(f"compressed-{layer.name}", compress) / "bytes").read_text())


def test_operator_image_has_less_than_100_megabytes_compressed(tmp_path: Path) -> None:
    build_image("operator", OPERATOR)
    export_image(OPERATOR, tmp_path)
    sizes = [compressed_size(blob(tmp_path, layer["digest"])) for layer in manifest_of(tmp_path)["layers"]]
    assert sum(sizes) < 100 * MEGABYTE, f"layers have {[round(size / MEGABYTE, 1) for size in sizes]} MB"
    assert sizes[-1] < 3 * MEGABYTE, "a change of our own code moves more than three megabytes"


def test_operator_image_runs_as_an_unprivileged_user(tmp_path: Path) -> None:
    build_image("operator", OPERATOR)
    export_image(OPERATOR, tmp_path)
    config = json.loads(blob(tmp_path, manifest_of(tmp_path)["config"]["digest"]).read_text())["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["gaudi-operator"], ["run"])


def test_hpu_runtime_image_builds_on_a_stand_in_base() -> None:
    build_image("runtime-hpu", FOR_CARDS, {"HPU_BASE_IMAGE": "hpu-stand-in"})
