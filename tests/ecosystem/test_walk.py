"""Run examples/monitoring/walk.sh on an empty cluster with Prometheus: two alerts fire and are resolved.

The test writes the output of the script to `build/walk-through.txt`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import install
from demo.install import OPERATOR_NAMESPACE, ROOT, Installation
from localcluster import remove_cluster, tools
from localcluster.programs import build
from tests.e2e.conftest import cluster_name
from tests.ecosystem.parts import install_prometheus

SCRIPT = ROOT / "examples" / "monitoring" / "walk.sh"
RECORD = ROOT / "build" / "walk-through.txt"
NAMESPACE = "walk"

pytestmark = pytest.mark.timeout(2400)  # the first build of the images downloads torch


@pytest.fixture
def empty() -> Iterator[Installation]:
    """A cluster with a Prometheus and our images on its node, but without an operator."""
    name = cluster_name("walk")
    installed = Installation(install.ensure_cluster(name))
    installed.cluster.load_folder(install.checkpoint(), install.MODEL_IMAGE)
    installed.create_namespace(OPERATOR_NAMESPACE)
    installed.create_namespace(NAMESPACE)
    install_prometheus(installed)
    yield installed
    remove_cluster(name)


def test_walk_through_raises_and_resolves_its_alerts(empty: Installation, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(empty.kubeconfig.read_text())
    path = [Path(sys.executable).parent, tools().bin_dir, build.helm(), os.environ["PATH"]]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": os.pathsep.join(map(str, path))}
    subprocess.run(
        ["kubectl", "config", "set-context", "--current", "--namespace", NAMESPACE], env=environment, check=True
    )
    RECORD.parent.mkdir(exist_ok=True)
    with RECORD.open("w") as record:
        done = subprocess.run(
            [str(SCRIPT)], env=environment, stdout=record, stderr=subprocess.STDOUT, timeout=1800, check=False
        )
    output = RECORD.read_text()
    assert done.returncode == 0, output[-3000:]
    assert output.count("\nPASSED\n") == 2
