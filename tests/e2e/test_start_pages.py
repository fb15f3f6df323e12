"""The commands of README.md, docs/start/llama.md and docs/start/install.md, run unchanged on an emulated card."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import install
from demo.install import OPERATOR_NAMESPACE, RELEASE, Installation, checkpoint, local_volume
from demo.resource import Resource, is_ready
from localcluster import tools
from localcluster.node.node import Node
from tests.e2e import docker_stand_in
from tests.e2e.host_address import host_address
from tests.plugin.environment import NoSource, source
from tests.support.documented import INSTALL, LLAMA, ON_CARD, README, ROOT, documents, llama, tiny_llama
from tests.support.hub_server import HubState, running
from tests.support.shell import Shell, make_clone, search_path, table_of_times

TOKEN = "hf_of_the_test"
ON_GAUDI, OF_LLAMA, OF_INSTALL = ON_CARD
SECRET, JOB = f"{LLAMA}, Create the secret 1", f"{LLAMA}, Keep the weights in a PVC 1"
PREFIX = "registry.example.com/ai/"


@dataclass(frozen=True)
class Machine:
    """The machine of a reader: a clone, the programs that the pages use, and a kubeconfig for one namespace."""

    clone: Path
    programs: Path
    kubeconfig: Path
    installed: Installation
    namespace: str

    def shell(self) -> Shell:
        """Return a new shell on the machine. pip refuses to install outside of a virtual environment, as on Debian."""
        variables = {"KUBECONFIG": str(self.kubeconfig), "PATH": search_path(self.programs)}
        return Shell(self.clone, {**variables, "PIP_REQUIRE_VIRTUALENV": "1"})

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace of the pages."""
        return self.installed.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def node(installed: Installation) -> Node:
    """The embedded node. Images can be loaded into this node under any name."""
    if not isinstance(installed.cluster, Node):
        pytest.skip("These pages push images to a registry, for which only the embedded node has a stand-in.")
    try:
        source()
    except NoSource as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    return installed.cluster


@pytest.fixture(scope="module")
def hub(node: Node) -> HubState:
    """The hub of this machine. It serves a tiny checkpoint under the name of Llama."""
    files = {file.name: file.read_bytes() for file in checkpoint().iterdir()}
    return HubState(files, repo=llama()["spec"]["model"]["source"]["huggingFace"]["repo"])


@pytest.fixture(scope="module")
def endpoint(installed: Installation, hub: HubState) -> Iterator[str]:
    """The address at which pods can connect to the hub."""
    address = host_address(installed)
    with running(hub, address, address) as found:
        yield found


@pytest.fixture(scope="module")
def machine(
    installed: Installation, node: Node, namespace: str, endpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """The machine before the first command. The operator of the other tests is restored at the end."""
    clone = make_clone(tmp_path_factory.mktemp("clone"))
    (clone / "llama.yaml").write_text(yaml.safe_dump(llama()))
    (clone / "tiny-llama.yaml").write_text(yaml.safe_dump(tiny_llama(endpoint)))
    (clone / "FILE_WITH_THE_TOKEN").write_text(TOKEN)
    programs = tmp_path_factory.mktemp("programs")
    docker_stand_in.write_program(programs, sys.executable, ROOT, node.run_dir)
    for program in ("kubectl", "helm"):
        (programs / program).symlink_to(tools().bin_dir / program)
    kubeconfig = programs / "kubeconfig"
    kubeconfig.write_bytes(installed.kubeconfig.read_bytes())
    found = Machine(clone, programs, kubeconfig, installed, namespace)
    context = ["config", "set-context", "--current", "--namespace", namespace, "--kubeconfig", str(kubeconfig)]
    subprocess.run([str(tools().kubectl), *context], check=True, capture_output=True)
    yield found
    # A failed block may leave objects that belong to kubectl or to an earlier release. Install the chart again to
    # replace such objects.
    chart = ("upgrade", RELEASE, str(ROOT / "charts" / "gaudi-operator"), "--install", "--take-ownership")
    installed.helm(*chart, "--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--set", f"image.prefix={PREFIX}")
    install.install_chart(installed)
    # Remove the Pod Security label that deploy/operator.yaml sets, because a test of the chart runs pods on the host
    # network.
    installed.kubectl("label", "namespace", OPERATOR_NAMESPACE, "pod-security.kubernetes.io/enforce-")


@pytest.fixture(scope="module")
def on_gaudi(machine: Machine) -> dict[str, str]:
    """The outputs of the blocks of README.md, and of the commands that first remove the other tests' operator."""
    with machine.shell() as shell:
        found = shell.run_all(ON_GAUDI)
        print(f"\n{table_of_times(shell.times)}")  # noqa: T201
    return found


@pytest.fixture(scope="module")
def pods(machine: Machine, on_gaudi: dict[str, str]) -> set[str]:
    """The pods of the model that README.md created."""
    return pods_of(machine)


@pytest.fixture(scope="module")
def volume(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a volume that matches the PVC of the Llama page."""
    name, folder = f"{machine.namespace}-models", tmp_path_factory.mktemp("models")
    manifest = local_volume(machine.installed, name, folder, "local", capacity="50Gi")
    machine.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    yield folder
    machine.kubectl("delete", "persistentvolume", name, "--wait=false")


@pytest.fixture(scope="module")
def of_llama(machine: Machine, endpoint: str, on_gaudi: dict[str, str], pods: set[str], volume: Path) -> dict[str, str]:
    """The outputs of the blocks of the Llama page. The page uses the model of README.md, which already runs."""
    found = {}
    with machine.shell() as shell:
        for name in OF_LLAMA:
            if name == SECRET:
                machine.kubectl("delete", "secret", "hugging-face")
            if name == JOB:
                machine.kubectl("apply", "-f", "-", stdin=fill_models(endpoint))
            found[name] = shell.run(name)
        print(f"\n{table_of_times(shell.times)}")  # noqa: T201
    return found


@pytest.fixture(scope="module")
def of_install(machine: Machine, of_llama: dict[str, str]) -> dict[str, str]:
    """The outputs of the blocks of the installation page."""
    with machine.shell() as shell:
        found = shell.run_all(OF_INSTALL)
        print(f"\n{table_of_times(shell.times)}")  # noqa: T201
    return found


def pods_of(machine: Machine) -> set[str]:
    """Return the UIDs of the model's pods."""
    listed = json.loads(machine.kubectl("get", "pods", "-l", "inference.gaudi.dev/name=llama", "-o", "json"))
    return {pod["metadata"]["uid"] for pod in listed["items"]}


def fill_models(endpoint: str) -> str:
    """Return the PVC and the Job of the Llama page. The Job downloads from the hub of this machine."""
    claim, job = documents(f"{LLAMA}, Keep the weights in a PVC 1")
    job["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "HF_ENDPOINT", "value": endpoint})
    return yaml.safe_dump_all([claim, job])


def answer(output: str) -> Any:
    """Return the completion in the output of a block."""
    (line,) = [line for line in output.splitlines() if '"choices"' in line]
    return json.loads(line[line.index("{") :])


def test_readme_commands_end_with_a_completion(on_gaudi: dict[str, str]) -> None:
    assert answer(on_gaudi[f"{README}, On Gaudi 2"])["usage"]["completion_tokens"] >= 1


def test_readme_forecast_prints_that_the_model_fits(on_gaudi: dict[str, str]) -> None:
    assert "\nFITS: " in on_gaudi[f"{README}, On Gaudi 2"]


def test_pods_run_the_images_in_the_readme(machine: Machine, on_gaudi: dict[str, str]) -> None:
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert machine.kubectl("get", "replicaset", "-o", "jsonpath={..containers[0].image}").split() == [
        f"{PREFIX}gaudi-runtime-hpu:0.1.0"
    ]
    found = machine.installed.kubectl("get", "deployment", RELEASE, "--namespace", OPERATOR_NAMESPACE, "-o", image)
    assert found == f"{PREFIX}gaudi-operator:0.1.0"


def test_uninstall_and_llama_page_commands_keep_the_pods(
    machine: Machine, pods: set[str], of_llama: dict[str, str]
) -> None:
    assert pods
    assert pods_of(machine) == pods
    assert is_ready(next(Resource(str(machine.kubeconfig), machine.namespace, "llama").states(60)))


def test_llama_page_commands_end_with_a_completion(of_llama: dict[str, str]) -> None:
    assert answer(of_llama[f"{LLAMA}, Ask 1"])["usage"]["completion_tokens"] >= 1


def test_job_fills_the_volume_with_the_model(of_llama: dict[str, str], volume: Path, hub: HubState) -> None:
    assert {file.name for file in (volume / "llama-3.1-8b").iterdir() if file.is_file()} == hub.files.keys()


def test_job_uses_the_token_of_the_secret(of_llama: dict[str, str], hub: HubState) -> None:
    assert f"Bearer {TOKEN}" in {authorization for path, _, authorization in hub.requests if "/resolve/" in path}


def test_helm_test_of_the_installation_page_succeeds(of_install: dict[str, str]) -> None:
    assert "Succeeded" in of_install[f"{INSTALL}, Installing 1"]


def test_helm_adopts_the_objects_that_kubectl_installed(machine: Machine, of_install: dict[str, str]) -> None:
    namespace = ("--namespace", OPERATOR_NAMESPACE)
    machine.installed.kubectl("rollout", "status", *namespace, f"deployment/{RELEASE}", "--timeout=120s")
    assert machine.installed.helm("list", *namespace, "--short").split() == [RELEASE]
