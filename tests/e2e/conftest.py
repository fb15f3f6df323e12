"""One cluster for all end-to-end tests: a real node, images of our Dockerfile, the chart installed by Helm."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4
from zlib import crc32

import pytest
import yaml

from demo import install
from demo.install import ROOT, Installed
from demo.resource import Resource
from localcluster import remove_cluster

READY = "--timeout=300s"
CLUSTER = f"e2e-{crc32(bytes(ROOT)):08x}"
"""Each checkout has its own, so that two runs on a machine do not take each other's cluster down."""
FIRST_BUILD_SECONDS = 1800


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whichever test comes first waits for the images, and the first build fetches torch."""
    if item.path.parent == Path(__file__).parent and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(FIRST_BUILD_SECONDS))


@pytest.fixture(scope="session")
def installed() -> Iterator[Installed]:
    """The operator on a cluster of our own, removed afterwards."""
    yield install.everything(CLUSTER)
    remove_cluster(CLUSTER)


@pytest.fixture(scope="module")
def namespace(installed: Installed) -> Iterator[str]:
    """A namespace of the module's own, under the restricted Pod Security Standard."""
    name = f"e2e-{uuid4().hex[:8]}"
    installed.make_namespace(name)
    yield name
    installed.kubectl("delete", "namespace", name, "--wait=false")  # it looks at its pods only twice a minute


@pytest.fixture(scope="module")
def apply(installed: Installed, namespace: str) -> Callable[..., Resource]:
    """Apply the tiny example under another name, with parts of its spec replaced."""

    def _apply(name: str, **spec: object) -> Resource:
        manifest = yaml.safe_load((ROOT / "examples" / "tiny-torch-cpu.yaml").read_text())
        manifest["metadata"]["name"] = name
        for field, value in spec.items():
            manifest["spec"][field] = {**manifest["spec"].get(field, {}), **value} if isinstance(value, dict) else value
        installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
        return Resource(str(installed.kubeconfig), namespace, name)

    return _apply


@pytest.fixture(scope="module")
def wait_ready(installed: Installed, namespace: str) -> Callable[[str], None]:
    """`kubectl wait --for=condition=Ready`, as a user or a pipeline would."""

    def _wait(name: str) -> None:
        installed.kubectl("wait", "--namespace", namespace, "--for=condition=Ready", f"gi/{name}", READY)

    return _wait
