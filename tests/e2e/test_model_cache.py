"""A shared model cache. Real pods download a model from a hub into a PVC, and later pods do not need the hub."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.install import Installation, checkpoint, local_volume
from demo.resource import Resource, is_ready
from tests.e2e.host_address import host_address
from tests.e2e.pods import Pods
from tests.e2e.specs import VLLM
from tests.support.hub_server import COMMIT, REPO, HubState, running

NAME = "fetched"
PATIENCE = 600
"""Two vLLM pods start while two other test clusters use the same two cores."""


@pytest.fixture
def claim(installed: Installation, namespace: str, tmp_path: Path) -> Iterator[str]:
    """A PVC on an empty folder of the node. The folder belongs to root, as on a new disk."""
    name = f"{namespace}-{NAME}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    request = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    objects = [
        local_volume(installed, name, tmp_path),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": request,
        },
    ]
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    yield name
    installed.kubectl("delete", "persistentvolume", name, "--wait=false")


def pods_of(state: dict[str, Any]) -> set[str]:
    """Return the names of the pods in the status."""
    return {pod["name"] for pod in state.get("status", {}).get("pods", [])}


def count_downloads(hub: HubState) -> Counter[str]:
    """Return the number of download requests for each file."""
    begin = f"/{REPO}/resolve/{COMMIT}/"
    return Counter(path.removeprefix(begin) for path, _, _ in hub.requests if path.startswith(begin))


def test_files_are_downloaded_once_and_new_pods_need_no_hub(
    installed: Installation,
    namespace: str,
    claim: str,
    apply: Callable[..., Resource],
) -> None:
    hub = HubState({file.name: file.read_bytes() for file in checkpoint().iterdir()})
    address = host_address(installed)
    with ExitStack() as while_the_hub_is_there:
        endpoint = while_the_hub_is_there.enter_context(running(hub, address, address))
        model = {
            "source": {"huggingFace": {"repo": REPO, "revision": COMMIT}},
            "cache": {"existingClaim": claim},
        }
        engine = {**VLLM["engine"], "env": [{"name": "HF_ENDPOINT", "value": endpoint}]}
        resource = apply(NAME, **{**VLLM, "replicas": 2, "model": model, "engine": engine})
        before = next(state for state in resource.states(PATIENCE) if is_ready(state))
        assert count_downloads(hub) == dict.fromkeys(hub.files, 1)
    deleted = min(pods_of(before))
    Pods(installed, namespace, NAME).kubectl("delete", "pod", deleted, "--wait=false")
    next(state for state in resource.states(PATIENCE) if is_ready(state) and pods_of(state) - pods_of(before))
    assert count_downloads(hub) == dict.fromkeys(hub.files, 1)
