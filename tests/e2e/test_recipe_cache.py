"""Recipes on a PVC that pods share: later pods reuse the recipes of the first pod."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.install import Installation, local_volume
from demo.resource import Resource, is_ready
from gaudi_operator.core.names import REVISION_LABEL
from tests.e2e.groups import report_of
from tests.e2e.pods import Pods
from tests.e2e.specs import ONE_BUCKET

NAME = "recipes"
PATIENCE = 300


@pytest.fixture
def storage_class(installed: Installation, namespace: str, tmp_path: Path) -> Iterator[str]:
    """A storage class with one volume on an empty folder of the node."""
    name = f"{namespace}-{NAME}"
    volume = local_volume(installed, name, tmp_path, storage_class=name)
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(volume))
    yield name
    installed.kubectl("delete", "persistentvolume", name, "--wait=false")


def cache_of(state: dict[str, Any]) -> dict[str, Any]:
    """Return the field recipeCache of the status."""
    return dict(state.get("status", {}).get("recipeCache", {}))


def filled(resource: Resource) -> dict[str, Any]:
    """Wait until the resource is Ready and its recipe cache is filled. Return the recipe cache."""
    states = (state for state in resource.states(PATIENCE) if is_ready(state))
    return next(cache for cache in map(cache_of, states) if cache.get("phase") == "Filled")


def found_share(pods: Pods) -> float:
    """Return the share of planned buckets whose recipe the only pod found at its start."""
    report = report_of(pods, pods.only())
    return (report.prompt.cached + report.decode.cached) / (report.prompt.planned + report.decode.planned)


def restart_from_zero(resource: Resource, pods: Pods) -> None:
    """Scale to zero, wait until the last pod is deleted, and scale up."""
    gone = pods.names()
    resource.patch({"replicas": 0})
    pods.wait_gone(gone)
    resource.patch({"replicas": 1})


def create_entry(shared: Path, digest: str, resource: str, revision: str) -> Path:
    """Create a cache entry that this revision last used two hours ago."""
    entry, mark = shared / digest, shared / f"{digest}.{resource}.{revision}.use"
    entry.mkdir()
    mark.touch()
    for each, mode in ((entry, 0o777), (mark, 0o666)):  # as if the user of the pods had created it
        each.chmod(mode)
    before = mark.stat().st_mtime - 7200
    os.utime(mark, (before, before))
    return entry


def test_later_pod_starts_from_shared_recipes(
    installed: Installation,
    namespace: str,
    storage_class: str,
    apply: Callable[..., Resource],
    tmp_path: Path,
) -> None:
    shared = {"size": "1Gi", "storageClassName": storage_class}
    engine = {"settings": {"compileSeconds": "2", "recipeSeconds": "0.1"}}
    resource = apply(NAME, replicas=1, bucketing=ONE_BUCKET, engine=engine, recipeCache=shared)
    pods = Pods(installed, namespace, NAME)
    assert "has no recipes for this software" in filled(resource)["message"]
    assert found_share(pods) == 0
    revision = pods.only()["metadata"]["labels"][REVISION_LABEL]
    (mark,) = tmp_path.glob("*.use")
    _, uid, marked, _ = mark.name.split(".")
    assert marked == revision

    forgotten = create_entry(tmp_path, "0" * 16, uid, "forgotten")
    kept = create_entry(tmp_path, "1" * 16, uid, revision)
    others = create_entry(tmp_path, "2" * 16, "another-resource", "forgotten")
    restart_from_zero(resource, pods)
    filled(resource)
    assert found_share(pods) == 1
    assert [each.exists() for each in (forgotten, kept, others)] == [False, True, True]
