"""A real API server with controllers in a network namespace, and a new Kubernetes namespace for every test."""

import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from gaudi_operator.api.crd import CLASS_NAME, NAME, crds_yaml
from gaudi_operator.api.v1alpha1.inference_class import KIND as CLASS
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GROUP
from localcluster import ControlPlane, enter_network_namespace, tools
from localcluster.programs import build
from tests.cluster.diagnosis import diagnose
from tests.cluster.objects import Objects
from tests.support.builders import Object
from tests.support.kube_api import KubeApi
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import grants
from tests.unit.chart.rendering import render

LONGEST_FIRST = (
    "test_operator_starts_with_many_existing_resources",
    "test_random_commands_break_no_law",
    "test_accepted_bad_specs_are_refused_as_in_the_table",
    "test_rollout_commands_pause_resume_fail_and_retry_with_force",
    "test_rollout_ends_although_the_operator_is_killed_repeatedly",
    "test_pods_are_replaced_in_place_when_quotas_lack_room",
)
"""They run first, so that the other processes do not wait for one of them at the end."""

Kubectl = Callable[..., str]
NewOperator = Callable[..., OperatorProcess]
NewClass = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first."""
    items.sort(key=lambda item: LONGEST_FIRST.index(item.name) if item.name in LONGEST_FIRST else len(LONGEST_FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the namespace and the operator's log to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections.extend(diagnose(item.funcargs))
    return report


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, the API server and the controllers for the whole run. No kubelet runs, so pods never start."""
    tools()  # builds the tools if needed: inside the namespace nothing can be downloaded
    enter_network_namespace()
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def crd(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install the CustomResourceDefinition, wait until it is established, and return its name."""
    manifest = Path(tmp_path_factory.mktemp("crd")) / "crd.yaml"
    manifest.write_text(crds_yaml())
    control_plane.kubectl("apply", "--server-side", "-f", str(manifest))
    # Do not use `kubectl wait`. The field `status.conditions` of a new CustomResourceDefinition is null at first, and
    # `kubectl wait` fails on null.
    served = ("api-resources", f"--api-group={GROUP}", "--output=name")
    control_plane.wait(
        lambda: {NAME, CLASS_NAME} <= set(control_plane.kubectl(*served).split()), f"{NAME} to be served"
    )
    documented = ("get", "--raw", "/openapi/v3")
    control_plane.wait(lambda: f"apis/{API_VERSION}" in control_plane.kubectl(*documented), f"{NAME} to be explained")
    return NAME


@pytest.fixture(scope="session")
def objects(control_plane: ControlPlane, crd: str) -> Iterator[Objects]:
    """A client that writes objects with administrator permissions."""
    objects = Objects(control_plane)
    yield objects
    objects.close()


@pytest.fixture
def namespace(objects: Objects) -> str:
    """A namespace for this test only."""
    name = f"test-{uuid4().hex[:8]}"
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def new_class(objects: Objects, namespace: str) -> Iterator[NewClass]:
    """Create or update a class for this test and return its name.

    Classes are cluster-scoped, so the fixture deletes the classes after the test.
    """
    classes: dict[str, Object] = {}

    def make(suffix: str = "class", **spec: Any) -> str:
        name = f"{namespace}-{suffix}"
        classes[name] = {"apiVersion": API_VERSION, "kind": CLASS, "metadata": {"name": name}, "spec": spec}
        objects.put(classes[name])
        return name

    yield make
    for manifest in classes.values():
        objects.delete(manifest)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    """Run kubectl as administrator in the test's namespace. If kubectl fails, LocalClusterError contains the output."""

    def run(*arguments: str, stdin: str | None = None) -> str:
        return control_plane.kubectl("--namespace", namespace, *arguments, stdin=stdin)

    return run


USER = "system:serviceaccount:gaudi-system:gaudi-operator"


@pytest.fixture(scope="session")
def operator_kubeconfig(control_plane: ControlPlane) -> Path:
    """The kubeconfig of the operator's account. At first, this account has no permissions."""
    path = control_plane.run_dir / "operator.kubeconfig"
    control_plane.authority.issue("operator", USER)
    control_plane.write_user_kubeconfig("operator", path)
    return path


@pytest.fixture
async def api(control_plane: ControlPlane, namespace: str) -> AsyncIterator[KubeApi]:
    """An administrator's client of the API server for the test's namespace."""
    client = KubeApi(control_plane.addresses.server, control_plane.run_dir / "pki", namespace)
    yield client
    await client.close()


@pytest.fixture
async def kubelet(api: KubeApi) -> AsyncIterator[Kubelet]:
    """The scheduler and kubelet of the test's namespace."""
    async with Kubelet(api) as running:
        yield running


@contextmanager
def leader_worker_sets(control_plane: ControlPlane, objects: Objects) -> Iterator[None]:
    """Serve LeaderWorkerSets in the block. Other tests need a cluster without LeaderWorkerSets."""
    (path,) = (build.leader_worker_sets() / "config" / "crd" / "bases").glob("*_leaderworkersets.yaml")
    definition = yaml.safe_load(path.read_text())
    served = ("api-resources", "--api-group=leaderworkerset.x-k8s.io", "--output=name")
    objects.put(definition)
    try:
        control_plane.wait(
            lambda: "leaderworkersets" in control_plane.kubectl(*served), "LeaderWorkerSets to be served"
        )
        yield
    finally:
        objects.delete(definition)
    control_plane.wait(lambda: "leaderworkersets" not in control_plane.kubectl(*served), "their definition to be gone")


@pytest.fixture(scope="session")
def operator_policy(objects: Objects) -> None:
    """Apply the chart's policies for the operator's account and revisions, with the host folders of the examples."""
    for manifest in render(allowHostPath=[{"prefix": "/models", "groups": [3000]}]):
        if manifest["kind"].startswith("ValidatingAdmission"):
            objects.put(manifest)


@pytest.fixture
def new_operator(
    operator_kubeconfig: Path, objects: Objects, namespace: str, tmp_path: Path, operator_policy: None
) -> NewOperator:
    """Create operators that watch the test's namespace.

    Their account has only the permissions in docs/reference/rbac.md.
    """
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
    """A client for a second namespace that the operator's account may watch too."""
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
