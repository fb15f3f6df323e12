"""Recipes that real pods share: Inductor's code on a claim, taken by a later pod, and ignored where it is damaged."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.install import Installed
from demo.resource import Resource, is_ready
from tests.e2e.pods import Pods
from tests.e2e.specs import ONE_BUCKET
from tests.e2e.volumes import local_volume

NAME = "recipes"
PATIENCE = 300


@pytest.fixture
def storage_class(installed: Installed, namespace: str, tmp_path: Path) -> Iterator[str]:
    """A class with one volume, on a fresh folder of the node."""
    name = f"{namespace}-{NAME}"
    volume = local_volume(installed, name, tmp_path, storage_class=name)
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(volume))
    yield name
    installed.kubectl("delete", "persistentvolume", name, "--wait=false")


def cache_of(state: dict[str, Any]) -> dict[str, Any]:
    """What the status says of the recipe cache."""
    return dict(state.get("status", {}).get("recipeCache", {}))


def ready(resource: Resource, **wished: Any) -> dict[str, Any]:
    """The recipe cache of the resource, once it is ready and its cache is as `wished`."""
    states = (state for state in resource.states(PATIENCE) if is_ready(state))
    return next(cache for cache in map(cache_of, states) if wished.items() <= cache.items())


def start_again(resource: Resource, pods: Pods) -> None:
    """Scale to zero, and back once the last pod is gone."""
    gone = pods.names()
    resource.patch({"replicas": 0})
    pods.wait_gone(gone)
    resource.patch({"replicas": 1})


def test_a_later_pod_starts_from_recipes_and_ignores_damaged_ones(
    installed: Installed, namespace: str, storage_class: str, apply: Callable[..., Resource], tmp_path: Path
) -> None:
    shared = {"enabled": True, "size": "1Gi", "storageClassName": storage_class}
    engine = {"compileBackend": "inductor"}
    resource = apply(NAME, replicas=1, bucketing=ONE_BUCKET, engine=engine, recipeCache=shared)
    pods = Pods(installed, namespace, NAME)
    assert "has no recipes of this software" in ready(resource, phase="Filled", hitPercent=0)["message"]

    start_again(resource, pods)
    assert ready(resource, phase="Filled", hitPercent=100)["savedSeconds"] > 0

    largest = max(tmp_path.glob("*/objects/*"), key=lambda file: file.stat().st_size)
    largest.write_bytes(b"damaged")
    start_again(resource, pods)
    assert "is not as its checksum says" in ready(resource, phase="Filled", hitPercent=0)["message"]
