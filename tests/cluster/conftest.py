"""A real API server with controllers, in a network of its own; a fresh namespace for every test."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gaudi_operator.api.crd import CLASS_NAME, NAME, definitions_yaml
from gaudi_operator.api.v1alpha1.inference_class import KIND as CLASS
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GROUP
from localcluster import ControlPlane, enter_network_namespace, tools
from tests.cluster.objects import Objects
from tests.support.builders import Object
from tests.support.kube_api import KubeApi
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import grants
from tests.unit.chart.rendering import render

LONGEST_FIRST = (
    "test_start_beside_a_thousand_resources",
    "test_no_law_is_broken_whatever_happens",
    "test_rollout_is_held_released_failed_and_retried_by_force_alone",
    "test_operator_killed_again_and_again_ends_the_rollout",
    "test_pods_are_replaced_in_place_where_quotas_lack_room",
)
"""They would otherwise be what all other processes wait for at the end."""

Kubectl = Callable[..., str]
NewOperator = Callable[..., OperatorProcess]
NewClass = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests begin."""
    items.sort(key=lambda item: LONGEST_FIRST.index(item.name) if item.name in LONGEST_FIRST else len(LONGEST_FIRST))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, API server and controllers for the whole run; pods are never started."""
    tools()  # builds, where that was not done yet: nothing can be fetched from inside the namespace
    enter_network_namespace()
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def crd(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of our CustomResourceDefinition, installed and established."""
    manifest = Path(tmp_path_factory.mktemp("crd")) / "crd.yaml"
    manifest.write_text(definitions_yaml())
    control_plane.kubectl("apply", "--server-side", "-f", str(manifest))
    # Not `kubectl wait`: it gives up on the null conditions that a new definition has for a moment.
    served = ("api-resources", f"--api-group={GROUP}", "--output=name")
    control_plane.wait(
        lambda: {NAME, CLASS_NAME} <= set(control_plane.kubectl(*served).split()), f"{NAME} to be served"
    )
    documented = ("get", "--raw", "/openapi/v3")
    control_plane.wait(lambda: f"apis/{API_VERSION}" in control_plane.kubectl(*documented), f"{NAME} to be explained")
    return NAME


@pytest.fixture(scope="session")
def objects(control_plane: ControlPlane, crd: str) -> Iterator[Objects]:
    """Writes objects as administrator."""
    objects = Objects(control_plane)
    yield objects
    objects.close()


@pytest.fixture
def namespace(objects: Objects) -> str:
    """A namespace of this test alone."""
    name = f"test-{uuid4().hex[:8]}"
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def new_class(objects: Objects, namespace: str) -> Iterator[NewClass]:
    """Makes a class of this test, or changes it; it has no namespace, so it is removed at the end. Returns its name."""
    made: dict[str, Object] = {}

    def make(suffix: str = "class", **spec: Any) -> str:
        name = f"{namespace}-{suffix}"
        made[name] = {"apiVersion": API_VERSION, "kind": CLASS, "metadata": {"name": name}, "spec": spec}
        objects.put(made[name])
        return name

    yield make
    for manifest in made.values():
        objects.delete(manifest)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """kubectl as administrator in the test's namespace; raises LocalClusterError with kubectl's own words."""

    def run(*arguments: str, stdin: str | None = None) -> str:
        return control_plane.kubectl("--namespace", namespace, *arguments, stdin=stdin)

    return run


USER = "system:serviceaccount:gaudi-system:gaudi-operator"


@pytest.fixture(scope="session")
def operator_kubeconfig(control_plane: ControlPlane) -> Path:
    """Kubeconfig of the operator's account, which has no rights by itself."""
    path = control_plane.run_dir / "operator.kubeconfig"
    control_plane.authority.issue("operator", USER)
    control_plane.kubeconfig_for("operator", path)
    return path


@pytest.fixture
async def api(control_plane: ControlPlane, namespace: str) -> AsyncIterator[KubeApi]:
    """The API server as administrator, in the test's namespace."""
    client = KubeApi(control_plane.addresses.server, control_plane.run_dir / "pki", namespace)
    yield client
    await client.close()


@pytest.fixture
async def kubelet(api: KubeApi) -> AsyncIterator[Kubelet]:
    """Scheduler and kubelet of the test's namespace."""
    async with Kubelet(api) as running:
        yield running


@pytest.fixture(scope="session")
def operator_policy(objects: Objects) -> None:
    """Apply the chart's policy on the operator's account, with the folders of nodes that examples name."""
    for manifest in render(allowHostPath=[{"prefix": "/models", "groups": [3000]}]):
        if manifest["kind"].startswith("ValidatingAdmission") and manifest["metadata"]["name"].endswith("-account"):
            objects.put(manifest)


@pytest.fixture
def new_operator(
    operator_kubeconfig: Path, objects: Objects, namespace: str, tmp_path: Path, operator_policy: None
) -> NewOperator:
    """Makes operators that serve the test's namespace, with the rights of docs/reference/rbac.md and no others."""
    for manifest in grants(USER, namespace):
        objects.put(manifest, namespace)
    numbers = itertools.count()

    def make(**settings: object) -> OperatorProcess:
        log = tmp_path / f"operator-{next(numbers)}.log"
        own = {"namespace": namespace, "watch_namespaces": namespace}
        return OperatorProcess(operator_kubeconfig, log, **{**own, **settings})

    return make


@pytest.fixture
async def other_api(control_plane: ControlPlane, objects: Objects, namespace: str) -> AsyncIterator[KubeApi]:
    """The API server in a second namespace, which the operator's account may serve too."""
    other = f"{namespace}-other"
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    for manifest in grants(USER, other):
        objects.put(manifest, other)
    client = KubeApi(control_plane.addresses.server, control_plane.run_dir / "pki", other)
    yield client
    await client.close()


@pytest.fixture
async def operator(new_operator: NewOperator) -> AsyncIterator[OperatorProcess]:
    """A running operator."""
    process = new_operator()
    async with process:
        yield process
    assert not [line for line in process.lines() if "exception" in line], "the operator logged a defect"
