"""Snapshots of all children of some examples, so that a review shows every changed field.

After an intended change, run `.venv/bin/python -m pytest --snapshot-update` with this file.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from gaudi_operator.core.children.manifests import (
    autoscaler_manifest,
    controller_revision_manifest,
    leader_worker_set_manifest,
    network_policy_manifest,
    pod_disruption_budget_manifest,
    replica_set_manifest,
    service_account_manifest,
    service_manifest,
)
from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.rendering.pod_template import pod_template, worker_template
from gaudi_operator.core.rendering.pod_volumes import kept_revisions_config_map, recipe_pvc
from gaudi_operator.core.rendering.runtime_config import runtime_config_map
from gaudi_operator.core.rollout.revision import Revision, RevisionPodGroup
from tests.unit.operator.core.resources import DEFAULTS

FOLDER = Path(__file__).parents[5] / "examples"
EXAMPLES = ("tiny-vllm-cpu", "production", "vllm/llama-3.1-8b", "several-nodes-simulation")


def children(example: str) -> dict[str, Any]:
    manifest = yaml.safe_load((FOLDER / f"{example}.yaml").read_text())
    given = read_inference({**manifest, "metadata": {"namespace": "models", "uid": "u", **manifest["metadata"]}})
    owner, spec = given.identity, given.spec
    revision = Revision("r1", 1, {}, {}, "{}", stored_data={"config": "{}"})
    template = pod_template(given, "r1", "p" * 64, "the-config", DEFAULTS)
    found = {
        "service": service_manifest(given),
        "account": service_account_manifest(owner),
        "network policy": network_policy_manifest(given, DEFAULTS),
        "budget": pod_disruption_budget_manifest(given, spec.replicas, 0),
        "config": runtime_config_map(owner, "{}"),
        "revision": controller_revision_manifest(owner, revision, DEFAULTS.controller),
    }
    if spec.parallelism.nodes > 1:
        group = RevisionPodGroup(spec.parallelism.nodes, worker_template(template))
        found["workload"] = leader_worker_set_manifest(owner, Revision("r1", 1, {}, template, "{}", group=group), 2, {})
    else:
        found["workload"] = replica_set_manifest(owner, "r1", template, 2, {})
    if spec.autoscaling:
        found["autoscaler"] = autoscaler_manifest(given, spec.autoscaling, 300)
    if spec.recipe_cache:
        found["recipes"] = recipe_pvc(owner, spec.recipe_cache, None)
        found["kept revisions"] = kept_revisions_config_map(owner, ["r1"])
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_children_of_an_example_equal_the_snapshot(example: str, snapshot: SnapshotAssertion) -> None:
    assert yaml.safe_dump(children(example)) == snapshot
