"""A release that is installed from its files alone. It is built from the commit and used without this checkout.

The commands come from docs/start/install.md. The model and its manifest belong to the user.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from demo import install
from demo.install import OPERATOR_NAMESPACE, ROOT, Installation
from demo.resource import Resource
from localcluster import Node, cluster, remove_cluster, tools
from localcluster.programs import build, debian
from tests.e2e.conftest import cluster_name
from tests.e2e.forwarding import port_forward
from tests.ecosystem import parts
from tests.ecosystem.parts import KREW, OLM, OPERATOR_VERIFY

NAMESPACE = "team"
NAME = "tiny-vllm-cpu"
PAGE = (ROOT / "docs" / "start" / "install.md").read_text()

pytestmark = pytest.mark.timeout(2400)  # the first build of the images downloads torch


def blocks(section: str, language: str) -> list[str]:
    """Return the code blocks of a section of the page."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


LOAD, CHART, WHEEL, BY_KREW = blocks("From the files of a release", "sh")
(OVERLAY,) = blocks("Without Helm", "yaml")


def model_text() -> str:
    """Return the example without the recipe cache, because the cluster has no storage class."""
    manifest = yaml.safe_load((ROOT / "examples" / f"{NAME}.yaml").read_text())
    del manifest["spec"]["recipeCache"]
    return yaml.safe_dump(manifest)


@dataclass(frozen=True)
class Machine:
    """A folder with the files of a release. Its shell does not use files or programs of the checkout."""

    folder: Path
    installed: Installation

    def run(self, script: str, *more: Path) -> str:
        """Run commands in order and return their standard output. The programs in `more` come first in PATH."""
        path = [*more, tools().bin_dir, build.helm()]
        venv = str(Path(sys.executable).parent)
        system = [each for each in os.environ["PATH"].split(os.pathsep) if each != venv]
        environment = {
            "HOME": os.environ["HOME"],  # pip's settings name a mirror there
            "KREW_ROOT": str(self.folder / "krew"),
            "KUBECONFIG": str(self.installed.kubeconfig),
            "PATH": os.pathsep.join([*map(str, path), *system]),
            "XDG_DATA_HOME": str(self.folder / "data"),
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The output of `make release` for the commit. A separate clone builds the release into a separate folder."""
    clone, out = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("release") / "dist"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(clone)], check=True)
    subprocess.run(["git", "checkout", "--quiet", commit.stdout.strip()], cwd=clone, check=True)
    version = yaml.safe_load((clone / "charts" / "gaudi-operator" / "Chart.yaml").read_text())["version"]
    subprocess.run(["git", "tag", "--force", f"v{version}"], cwd=clone, check=True, capture_output=True)
    venv = Path(sys.executable).parents[1]
    command = ["make", "release", f"TAG=v{version}", "REGISTRY=localhost", f"VENV={venv}"]
    command.append(f"--old-file={venv / '.ready'}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(command, cwd=clone, env=environment, check=True)
    (clone / "dist").rename(out)
    shutil.rmtree(clone)
    yield out
    shutil.rmtree(out)


@pytest.fixture(scope="module")
def machine(files: Path) -> Iterator[Machine]:
    """A cluster whose node has only the images of the release.

    The commands of the page load the images from archives.
    """
    name = cluster_name("release")
    node = cluster(name)
    assert isinstance(node, Node), "archives are loaded only into the embedded node: run it without kind"
    found = Machine(files, Installation(node))
    for line in LOAD.splitlines():
        if line.startswith("ctr "):
            _, _, namespace, *arguments = shlex.split(line)
            assert namespace == "k8s.io"
            node.ctr(*arguments[:-1], str(files / arguments[-1]))
        else:
            found.run(line)
    node.load_folder(install.checkpoint(), install.MODEL_IMAGE)
    found.installed.create_namespace(OPERATOR_NAMESPACE)
    found.installed.create_namespace(NAMESPACE)
    yield found
    for image in archived(files):
        node.ctr("images", "rm", image)
    remove_cluster(name)


def archived(files: Path) -> dict[str, str]:
    """The digests of the images in the archives, by image name."""
    found = {}
    for archive in files.glob("*.oci.tar"):
        with tarfile.open(archive) as layout:
            index = layout.extractfile("index.json")
            assert index
            (image,) = json.loads(index.read())["manifests"]
        found[image["annotations"]["org.opencontainers.image.ref.name"]] = image["digest"]
    return found


@pytest.fixture(scope="module")
def model(machine: Machine) -> Resource:
    """A Ready model on an installation of the release's chart."""
    machine.run(CHART)
    machine.installed.kubectl("apply", "--namespace", NAMESPACE, "-f", "-", stdin=model_text())
    ready = ("wait", "--for=condition=Ready", f"gi/{NAME}", "--timeout=300s")
    machine.installed.kubectl("--namespace", NAMESPACE, *ready)
    return Resource(str(machine.installed.kubeconfig), NAMESPACE, NAME)


@pytest.fixture(scope="module")
def commands(machine: Machine, model: Resource) -> Path:
    """The folder with the programs that were installed from the wheel and the pinned versions of the release."""
    machine.run(WHEEL)
    return machine.folder / "gaudi" / "bin"


def test_checksum_file_lists_every_other_file(files: Path) -> None:
    listed = {line.split()[1] for line in (files / "SHA256SUMS").read_text().splitlines()}
    assert listed == {each.name for each in files.iterdir()} - {"SHA256SUMS"}


def test_skopeo_reads_the_operator_archive(files: Path) -> None:
    """Read only the smaller archive, because the tools first unpack the whole archive."""
    debian.require(debian.IMAGES)
    (archive,) = files.glob("gaudi-operator-*.oci.tar")
    inspect = ["skopeo", "inspect", "--no-tags", f"oci-archive:{archive}"]
    inspected = json.loads(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)
    version = inspected["Labels"]["org.opencontainers.image.version"]
    assert archived(files)[f"localhost/gaudi-operator:{version}"] == inspected["Digest"]


def test_chart_and_archives_serve_a_model(machine: Machine, model: Resource) -> None:
    namespace = ("--namespace", NAMESPACE)
    images = machine.installed.kubectl("get", "pods", "-A", "-o", "jsonpath={..containers[*].image}").split()
    ours = {each for each in images if "gaudi" in each}
    assert ours == archived(machine.folder).keys()
    with (
        port_forward(machine.installed, NAMESPACE, f"svc/{NAME}", 80) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client,
    ):
        answer = client.completions.create(model="tiny", prompt="A bucket is", max_tokens=4)
    assert answer.usage
    assert answer.usage.completion_tokens >= 1
    assert (
        json.loads(machine.installed.kubectl("get", "gi", NAME, *namespace, "-o", "json"))["status"]["readyReplicas"]
        == 1
    )


def test_wheel_installs_gaudi_plan_and_kubectl_gaudi(machine: Machine, commands: Path) -> None:
    (machine.folder / "model.yaml").write_text(model_text())
    # Accept exit code 5 (UNKNOWN). The table of known models does not contain this checkpoint.
    assert "graphs" in machine.run("gaudi-plan forecast -f model.yaml || test $? = 5", commands)
    output = machine.run(f"kubectl gaudi status {NAME} --namespace {NAMESPACE}", commands)
    assert "1/1" in output


def test_krew_installs_the_plugin(machine: Machine, model: Resource) -> None:
    programs = machine.folder / "programs"
    programs.mkdir()
    (programs / "kubectl-krew").symlink_to(KREW.build() / "program")
    machine.run(BY_KREW, programs)
    plugins = machine.folder / "krew" / "bin"
    assert [each.name for each in plugins.iterdir()] == ["kubectl-gaudi"]
    output = machine.run(f"kubectl gaudi status {NAME} --namespace {NAMESPACE}", plugins)
    assert NAME in output


def unpack_bundle(files: Path, folder: Path) -> None:
    """Unpack the operator bundle."""
    (archive,) = files.glob("gaudi-operator-bundle-*.tar.gz")
    with tarfile.open(archive) as bundle:
        bundle.extractall(folder, filter="data")


def test_operator_bundle_passes_the_olm_validator(files: Path, tmp_path: Path) -> None:
    unpack_bundle(files, tmp_path)
    verify = [str(OPERATOR_VERIFY.build() / "program"), "manifests", "--object_validate"]

    def validate(folder: Path) -> str:
        done = subprocess.run([*verify, str(folder)], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    # Check only errors. The validator also warns about our permissions for API groups that it does not know.
    assert [line for line in validate(tmp_path).splitlines() if "level=error" in line] == []
    (tmp_path / "manifests" / "inference.gaudi.dev_gaudiinferences.yaml").unlink()
    assert "not found in bundle" in validate(tmp_path)


def install_objects(version: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects that OLM's catalog creates for a ClusterServiceVersion: account, roles, bindings, version.

    The names of the roles differ from the name of the version, because OLM itself creates a role with that name.
    """
    name, install = version["metadata"]["name"], version["spec"]["install"]["spec"]
    version["metadata"]["namespace"] = OPERATOR_NAMESPACE
    owner = {"olm.owner": name, "olm.owner.namespace": OPERATOR_NAMESPACE, "olm.owner.kind": version["kind"]}
    labels = {"olm.managed": "true", **owner}
    roles = []
    for kind, field in (("Role", "permissions"), ("ClusterRole", "clusterPermissions")):
        (permissions,) = install[field]
        account = {"kind": "ServiceAccount", "name": permissions["serviceAccountName"], "namespace": OPERATOR_NAMESPACE}
        metadata = {"name": f"{name}-{field}".lower(), "namespace": OPERATOR_NAMESPACE, "labels": labels}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]}
        rights = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
        roles += [
            {**rights, "kind": kind, "rules": permissions["rules"]},
            {**rights, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [account]},
        ]
    own = {"name": account["name"], "namespace": OPERATOR_NAMESPACE, "labels": {"olm.managed": "true"}}
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own}, *roles, version]


@pytest.fixture(scope="module")
def olm(machine: Machine, model: Resource) -> str:
    """The namespace of a global OperatorGroup.

    First, the fixture uninstalls the Helm release. The definition and the model remain.
    """
    machine.run(f"helm uninstall gaudi-operator --namespace {OPERATOR_NAMESPACE} --wait")
    listed = ["list", "-m", "-f", "{{.Dir}}", "github.com/operator-framework/operator-lifecycle-manager"]
    source = Path(build.go(listed, OLM.folder).strip())
    machine.installed.kubectl("create", "-f", str(source / "deploy" / "chart" / "crds"))
    machine.installed.create_namespace(parts.NAMESPACE)
    OLM.install(machine.installed)
    metadata = {"name": "all", "namespace": OPERATOR_NAMESPACE}
    group = {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata, "spec": {}}
    machine.installed.kubectl("create", "-f", "-", stdin=json.dumps(group))
    return OPERATOR_NAMESPACE


def test_olm_installs_the_version_of_the_bundle(machine: Machine, model: Resource, olm: str, tmp_path: Path) -> None:
    """Install the operator of the bundle with OLM's installer.

    The new operator adopts the model that is being served.
    """
    unpack_bundle(machine.folder, tmp_path)
    file = tmp_path / "manifests" / "gaudi-operator.clusterserviceversion.yaml"
    objects = install_objects(yaml.safe_load(file.read_text()))
    machine.installed.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objects))
    version = ("--namespace", olm, f"csv/{objects[-1]['metadata']['name']}")
    machine.installed.kubectl("wait", *version, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    assert_operator_works(model, 6)
    machine.installed.kubectl("delete", *version)
    gone = ("wait", "deployment/gaudi-operator", "--for=delete", "--timeout=60s")
    machine.installed.kubectl("--namespace", olm, *gone)


def assert_operator_works(model: Resource, limit: int) -> None:
    """Assert that an operator reconciles a change of the serving model. `limit` is a new revisionHistoryLimit."""
    changed = model.patch({"rollout": {"revisionHistoryLimit": limit}})["metadata"]["generation"]
    judged = next(state for state in model.states(120) if state["status"]["observedGeneration"] == changed)
    assert judged["status"]["readyReplicas"] == 1


def test_kubectl_manifest_adopts_the_served_model(machine: Machine, model: Resource, olm: str) -> None:
    """Install an operator with kubectl. The operator adopts the kept definition and the model that is being served."""
    text = OVERLAY.replace("../gaudi-inference-operator/deploy", "operator.yaml")
    (machine.folder / "kustomization.yaml").write_text(text.replace("registry.example.com/ai/", "localhost/"))
    machine.run("kubectl apply -k .")
    machine.run(f"kubectl -n {OPERATOR_NAMESPACE} rollout status deployment/gaudi-operator --timeout=120s")
    assert_operator_works(model, 4)
