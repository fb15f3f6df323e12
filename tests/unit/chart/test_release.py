"""What `make release` makes of a commit: the same bytes twice, an SBOM of all pins, and a look at advisories."""

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from scripts.chart_docs import ROOT
from scripts.release.advisories import scan
from scripts.release.build import build, source, sums
from scripts.release.pins import Pin, pins
from scripts.release.sbom import sbom

pytestmark = pytest.mark.timeout(1200)  # the very first run builds Helm

MADE = 1_700_000_000
ADDRESS = "https://example.com/v1"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hatchling and what it needs, as the images are built with it."""
    folder = tmp_path_factory.mktemp("packages")
    install = ["pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "--requirement"]
    command = [str(Path(sys.executable).with_name("uv")), *install, str(ROOT / "requirements" / "build.txt")]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def twice(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two builds of what is committed, each from files of its own."""
    outs = []
    for _ in range(2):
        found = source("HEAD", tmp_path_factory.mktemp("source"))
        out = tmp_path_factory.mktemp("dist")
        build(found, out, packages, ADDRESS)
        outs.append(out)
    return outs[0], outs[1]


def test_two_builds_have_the_same_bytes(twice: tuple[Path, Path]) -> None:
    first, second = map(sums, twice)
    assert first == second
    assert sorted(line.split()[1] for line in first.splitlines()) == [
        "argocd-cm.yaml",
        "crds.yaml",
        "gaudi-operator-0.1.0.tgz",
        "gaudi-operator.cdx.json",
        "gaudi-runtime.cdx.json",
        "gaudi.yaml",
        "gaudi_inference_operator-0.1.0-py3-none-any.whl",
        "kubectl-gaudi-0.1.0.tar.gz",
        "kubectl-gaudi.cdx.json",
        "operator.yaml",
    ]


def test_krew_manifest_names_the_archive_and_its_program(twice: tuple[Path, Path]) -> None:
    manifest = yaml.safe_load((twice[0] / "gaudi.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = twice[0] / platform["uri"].removeprefix(f"{ADDRESS}/")
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as files:
        assert files.getmember(platform["bin"]).mode == 0o755
    assert (manifest["metadata"]["name"], manifest["spec"]["version"]) == ("gaudi", "v0.1.0")


def test_sbom_names_every_pin_with_its_hashes(twice: tuple[Path, Path]) -> None:
    pinned = pins((ROOT / "requirements" / "operator.txt").read_text())
    said = json.loads((twice[0] / "gaudi-operator.cdx.json").read_text())
    assert {each["purl"] for each in said["components"]} == {each.purl for each in pinned}
    for each in said["components"]:
        (files,) = each["externalReferences"]
        assert files["hashes"]


def test_sbom_is_the_same_whatever_the_order_of_pins() -> None:
    both = [Pin("a", "1", ("0" * 64,)), Pin("b", "2", ())]
    assert sbom("x", "1", both, MADE) == sbom("x", "1", both[::-1], MADE)


LISTED = {
    "id": "PYSEC-1",
    "aliases": ["CVE-1"],
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "A_b"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.10"}]}],
        }
    ],
}


@pytest.mark.parametrize(
    ("version", "advisory", "found"),
    [
        ("1.9", LISTED, ["a-b 1.9: PYSEC-1 (CVE-1), mended in 1.10."]),
        ("1.10", LISTED, []),
        ("1.9", {**LISTED, "withdrawn": "2026-01-01"}, []),
        (
            "1.9",
            {"id": "X", "affected": [{**LISTED["affected"][0], "ranges": [], "versions": ["1.9"]}]},  # type: ignore[index,dict-item]
            ["a-b 1.9: X, no version mends it."],
        ),
    ],
    ids=["affected", "mended", "withdrawn", "by list"],
)
def test_pins_are_looked_up(tmp_path: Path, version: str, advisory: dict[str, object], found: list[str]) -> None:
    (tmp_path / "one.json").write_text(json.dumps(advisory))
    assert [str(each) for each in scan([Pin("a-b", version, ())], tmp_path)] == found


def test_folder_without_advisories_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no advisory"):
        scan([], tmp_path)
