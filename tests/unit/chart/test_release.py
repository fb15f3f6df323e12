"""The files of `make release`: versions, reproducible bytes, SBOMs with all pins, an OLM bundle, advisory check."""

import hashlib
import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from gaudi_operator.api.v1alpha1.inference_class import GaudiInferenceClass
from gaudi_operator.api.v1alpha1.resource import GaudiInference
from scripts.chart_docs import CHART, ROOT
from scripts.release.advisories import scan
from scripts.release.build import build, source, sums
from scripts.release.pins import Pin, pins
from scripts.release.sbom import sbom
from tests.support.permissions import rules
from tests.unit.chart.rendering import Object, only, render

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm

MADE = 1_700_000_000
ADDRESS = "https://example.com/v1"
REGISTRY = "registry.example.com/ai"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with hatchling and its dependencies, the build packages of the images."""
    folder = tmp_path_factory.mktemp("packages")
    install = ["pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "--requirement"]
    command = [str(Path(sys.executable).with_name("uv")), *install, str(ROOT / "requirements" / "build.txt")]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def two_builds(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two builds of the same commit, each from a separate checkout."""
    outs = []
    for _ in range(2):
        found = source("HEAD", tmp_path_factory.mktemp("source"))
        out = tmp_path_factory.mktemp("dist")
        build(found, out, packages, ADDRESS, REGISTRY)
        outs.append(out)
    return outs[0], outs[1]


def test_chart_versions_equal_the_package_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {project["version"]}


def test_two_builds_have_the_same_bytes(two_builds: tuple[Path, Path]) -> None:
    first, second = map(sums, two_builds)
    assert first == second
    assert sorted(line.split()[1] for line in first.splitlines()) == [
        "argocd-cm.yaml",
        "cli-requirements.txt",
        "crds.yaml",
        "gaudi-operator-0.1.0.tgz",
        "gaudi-operator-bundle-0.1.0.tar.gz",
        "gaudi-operator.cdx.json",
        "gaudi-runtime.cdx.json",
        "gaudi.yaml",
        "gaudi_inference_operator-0.1.0-py3-none-any.whl",
        "kubectl-gaudi-0.1.0.tar.gz",
        "kubectl-gaudi.cdx.json",
        "operator.yaml",
    ]


def test_krew_manifest_names_the_archive_and_its_program(two_builds: tuple[Path, Path]) -> None:
    manifest = yaml.safe_load((two_builds[0] / "gaudi.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = two_builds[0] / platform["uri"].removeprefix(f"{ADDRESS}/")
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as files:
        assert files.getmember(platform["bin"]).mode == 0o755
    assert (manifest["metadata"]["name"], manifest["spec"]["version"]) == ("gaudi", "v0.1.0")


def test_sbom_names_every_pin_with_its_hashes(two_builds: tuple[Path, Path]) -> None:
    pinned = pins((ROOT / "requirements" / "operator.txt").read_text())
    said = json.loads((two_builds[0] / "gaudi-operator.cdx.json").read_text())
    assert {each["purl"] for each in said["components"]} == {each.purl for each in pinned}
    for each in said["components"]:
        (files,) = each["externalReferences"]
        assert files["hashes"]


@pytest.mark.parametrize("product", ["gaudi-operator", "gaudi-runtime", "kubectl-gaudi"])
def test_sbom_meets_the_schema_of_cyclonedx(two_builds: tuple[Path, Path], product: str) -> None:
    text = (two_builds[0] / f"{product}.cdx.json").read_text()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"type": "library"', '"type": "lib"')) is not None


def test_sbom_is_independent_of_the_order_of_pins() -> None:
    both = [Pin("a", "1", ("0" * 64,)), Pin("b", "2", ())]
    assert sbom("x", "1", both, MADE) == sbom("x", "1", both[::-1], MADE)


@pytest.fixture(scope="module")
def bundle(two_builds: tuple[Path, Path]) -> dict[str, list[Object]]:
    """Return the documents of the operator bundle by file."""
    with tarfile.open(two_builds[0] / "gaudi-operator-bundle-0.1.0.tar.gz") as files:
        members = {each.name: files.extractfile(each) for each in files if each.name.endswith(".yaml")}
        return {name: list(yaml.safe_load_all(content.read())) for name, content in members.items() if content}


@pytest.fixture(scope="module")
def version(bundle: dict[str, list[Object]]) -> Object:
    """Return the ClusterServiceVersion."""
    (found,) = bundle["manifests/gaudi-operator.clusterserviceversion.yaml"]
    return found


def test_bundle_deploys_the_same_objects_as_the_chart(version: Object) -> None:
    """The user and the namespaces differ: OLM clusters assign the user, and OLM sets the namespaces."""
    unassigned = {"runAsUser": None, "runAsGroup": None}
    charts = only(render(image={"prefix": f"{REGISTRY}/"}, podSecurityContext=unassigned), "Deployment")["spec"]
    (deployment,) = version["spec"]["install"]["spec"]["deployments"]
    (own,), (expected,) = (each["template"]["spec"]["containers"] for each in (deployment["spec"], charts))
    watched = {each["name"]: each for each in own["env"]}.pop("GAUDI_OPERATOR_WATCH_NAMESPACES")
    assert watched["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['olm.targetNamespaces']"
    expected["env"] = [watched if each["name"] == watched["name"] else each for each in expected["env"]]
    assert deployment["spec"] == charts


def test_bundle_grants_the_documented_permissions(version: Object) -> None:
    (everywhere,), (granted,) = (version["spec"]["install"]["spec"][f"{kind}ermissions"] for kind in ("clusterP", "p"))

    def permissions_of(policy: list[Object]) -> set[str]:
        return {
            f"{verb} {resource}.{group}"
            for rule in policy
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    documented = permissions_of([*rules("cluster"), *rules("namespace")])
    assert permissions_of([*everywhere["rules"], *granted["rules"]]) == documented
    assert {right.split()[1] for right in permissions_of(everywhere["rules"])} == {
        "gaudiinferenceclasses.inference.gaudi.dev"
    }


def test_bundle_shows_valid_examples(version: Object) -> None:
    examples = json.loads(version["metadata"]["annotations"]["alm-examples"])
    for kind, example in zip((GaudiInference, GaudiInferenceClass), examples, strict=True):
        understood = kind.model_validate(example).model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert understood["spec"] == example["spec"]  # otherwise unknown fields would have been dropped


def test_objects_unsupported_by_olm_are_separate_files(bundle: dict[str, list[Object]]) -> None:
    separate_kinds = {each["kind"] for each in bundle["policies.yaml"]}
    assert separate_kinds == {"NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    within = {each["kind"] for name, file in bundle.items() if name.startswith("manifests/") for each in file}
    assert within == {
        "ClusterRole",
        "ClusterServiceVersion",
        "CustomResourceDefinition",
        "PodDisruptionBudget",
        "Service",
    }


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
        ("1.9", LISTED, ["a-b 1.9: PYSEC-1 (CVE-1), fixed in 1.10."]),
        ("1.10", LISTED, []),
        ("1.9", {**LISTED, "withdrawn": "2026-01-01"}, []),
        (
            "1.9",
            {"id": "X", "affected": [{**LISTED["affected"][0], "ranges": [], "versions": ["1.9"]}]},  # type: ignore[index,dict-item]
            ["a-b 1.9: X, no version fixes it."],
        ),
    ],
    ids=["affected", "mended", "withdrawn", "by list"],
)
def test_pins_are_checked_against_advisories(
    tmp_path: Path, version: str, advisory: dict[str, object], found: list[str]
) -> None:
    (tmp_path / "one.json").write_text(json.dumps(advisory))
    assert [str(each) for each in scan([Pin("a-b", version, ())], tmp_path)] == found


def test_folder_without_advisories_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no advisory"):
        scan([], tmp_path)
