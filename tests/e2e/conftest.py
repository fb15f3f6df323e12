"""A cluster for each process of the end-to-end tests: a real node, the images of our Dockerfile, and the chart.

The tests spend most of their time waiting, so several processes run concurrently. Tests that share a namespace run in
order in one process.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4
from zlib import crc32

import pytest
import yaml
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from demo import install
from demo.install import ROOT, Installation
from demo.resource import Resource
from localcluster import remove_cluster

READY = "--timeout=300s"
FIRST_BUILD_SECONDS = 1800

LONGEST_FIRST = (
    "test_groups.py",
    "test_upgrade_examples.py failing",
    "test_quickstart.py",
    "test_hostile_neighbours.py",
    "test_upgrade_examples.py",
    "test_card.py",
    "test_vllm.py",
    "test_recipe_cache.py",
    "test_gate.py",
    "test_upgrade.py",
    "test_chart.py",
    "test_operator_away.py",
    "test_drain.py",
    "test_autoscaling.py",
)
"""The order in which groups start. Groups without an entry come after them, so that the last groups are short."""

LAST = "test_start_pages.py"
"""The group that installs and removes the operator of its cluster by the commands of the manual."""


def group_of(nodeid: str) -> str:
    """Return the group of a test. All tests of a group run in one process and on one cluster."""
    file = Path(nodeid.partition("::")[0]).name
    if file == "test_vllm_groups.py":  # after the tests that need a cluster without LeaderWorkerSets
        return "test_groups.py"
    failing = ("[2-bad-plan]", "[3-out-of-memory]", "[4-stall]")
    return f"{file} failing" if nodeid.endswith(failing) else file


class GroupScheduling(LoadScopeScheduling):
    """A scheduler of pytest-xdist that assigns whole groups of tests to processes."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """Return the scheduler. pytest-xdist calls this hook if tests run in several processes."""
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long groups first."""

    def place(item: pytest.Item) -> int:
        group = group_of(item.nodeid)
        if group == LAST:
            return len(LONGEST_FIRST) + 1
        return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Extend the timeout of every test. The first test waits for the images, and the first build downloads torch."""
    if item.path.parent == Path(__file__).parent and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(FIRST_BUILD_SECONDS))


def cluster_name(process: str) -> str:
    """Return a cluster name for this checkout and process, so that a failure affects only one cluster."""
    return f"e2e-{crc32(bytes(ROOT)):08x}-{process}"


@pytest.fixture(scope="session")
def installed() -> Iterator[Installation]:
    """The operator on a cluster of this process. The cluster is removed at the end."""
    name = cluster_name(os.environ.get("PYTEST_XDIST_WORKER", "main"))
    yield install.ensure_installation(name)
    remove_cluster(name)


@pytest.fixture(scope="module")
def namespace(installed: Installation) -> Iterator[str]:
    """A namespace for the module. The namespace enforces the Pod Security level `restricted`."""
    name = f"e2e-{uuid4().hex[:8]}"
    installed.create_namespace(name)
    yield name
    # Do not wait for the deletion. The deletion takes long, because the namespace controller checks the remaining pods
    # only twice a minute.
    installed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def apply(installed: Installation, namespace: str) -> Callable[..., Resource]:
    """Apply the tiny simulation under another name and replace parts of its spec."""

    def _apply(name: str, **spec: object) -> Resource:
        manifest = yaml.safe_load((ROOT / "examples" / "tiny-sim.yaml").read_text())
        manifest["metadata"]["name"] = name
        for field, value in spec.items():
            manifest["spec"][field] = {**manifest["spec"].get(field, {}), **value} if isinstance(value, dict) else value
        installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
        return Resource(str(installed.kubeconfig), namespace, name)

    return _apply


@pytest.fixture(scope="module")
def wait_ready(installed: Installation, namespace: str) -> Callable[[str], None]:
    """Run `kubectl wait --for=condition=Ready`, as a user or a CI pipeline does."""

    def _wait(name: str) -> None:
        installed.kubectl("wait", "--namespace", namespace, "--for=condition=Ready", f"gi/{name}", READY)

    return _wait
