"""All children that a resource should have now, as complete manifests in the order in which they are written.

The PVC of recipes and the ConfigMap beside it are made separately: the PVC exists while the spec asks for it or a
revision that runs mounts it, and its writes come after all others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gaudi_operator.core.actions import Action
from gaudi_operator.core.children.diff import delete, missing_writes
from gaudi_operator.core.children.manifests.config_map import config_map
from gaudi_operator.core.children.manifests.controller_revision import controller_revision
from gaudi_operator.core.children.manifests.horizontal_pod_autoscaler import horizontal_pod_autoscaler
from gaudi_operator.core.children.manifests.leader_worker_set import leader_worker_set
from gaudi_operator.core.children.manifests.metadata import Object
from gaudi_operator.core.children.manifests.network_policy import network_policy
from gaudi_operator.core.children.manifests.pod_disruption_budget import pod_disruption_budget
from gaudi_operator.core.children.manifests.recipe_claim import kept_revisions, recipe_claim, recipe_claim_name
from gaudi_operator.core.children.manifests.replica_set import replica_set, rollout_annotations
from gaudi_operator.core.children.manifests.service import service, service_account
from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import Identity, Inference
from gaudi_operator.core.rollout.planner import Policy
from gaudi_operator.core.rollout.revision import Revision


def desired_children(
    inference: Inference,
    remembered: Iterable[Revision],
    running: Iterable[Revision],
    replicas: Mapping[str, int],
    policy: Policy,
    defaults: InstallationDefaults,
    in_place: Mapping[str, str],
    desired: Mapping[str, int],
) -> list[Object]:
    """`running` are the revisions whose pods must be able to start, the current one among them.

    `remembered` are those whose ControllerRevisions may have changed. `replicas` gives the pods of each revision that
    has a workload, `in_place` by revision why it replaces pods in place although it might surge, and `desired` the
    replicas that it has again after a back-off.
    ControllerRevisions come first, so that a rendering or a failure is never lost, and a workload after what its
    pods mount.
    """
    owner, running = inference.identity, tuple(running)
    children = [
        *(controller_revision(owner, each.name, each.number, each.data, each.failure) for each in remembered),
        *([service_account(owner)] if _own_account_is_used(owner.name, running) else []),
        *(config_map(owner, revision.config) for revision in running if revision.config),
        *([network_policy(inference, defaults)] if inference.spec.network_access.enabled else []),
        pod_disruption_budget(inference, policy.desired, policy.max_unavailable),
        service(inference),
        *([horizontal_pod_autoscaler(owner, autoscaling)] if (autoscaling := inference.spec.autoscaling) else []),
        *(
            _workload(
                owner,
                revision,
                replicas[revision.name],
                rollout_annotations(in_place.get(revision.name), desired.get(revision.name)),
            )
            for revision in running
            if revision.name in replicas
        ),
    ]
    return list({(child["kind"], child["metadata"]["name"]): child for child in children}.values())


def _workload(owner: Identity, revision: Revision, replicas: int, annotations: Mapping[str, str]) -> Object:
    if revision.group:
        return leader_worker_set(owner, revision, replicas, annotations)
    return replica_set(owner, revision.name, revision.template, replicas, annotations)


def _own_account_is_used(name: str, running: Iterable[Revision]) -> bool:
    return any(_account(revision.template) == name for revision in running)


def _account(template: Mapping[str, Any]) -> object:
    return template.get("spec", {}).get("serviceAccountName")


def recipe_claims(inference: Inference, running: Iterable[Revision], claims: Sequence[Manifest]) -> list[Action]:
    """What is to be done about the claim, given the live `claims`.

    Its writes come after all others: a class or a quota that refuses them must not hold back pods that run.
    """
    name, cache = recipe_claim_name(inference.identity), inference.spec.recipe_cache
    live = next((each for each in claims if each["metadata"]["name"] == name), None)
    mounted = any(_mounts(revision, name) for revision in running)
    if cache.enabled or (mounted and live is None):
        return missing_writes([recipe_claim(inference.identity, cache, live)], claims)
    if mounted:
        return []
    alive = [each for each in claims if "deletionTimestamp" not in each["metadata"]]
    return [delete(each, "spec.recipeCache is switched off and no pod mounts it") for each in alive]


def recipe_readers(inference: Inference, running: Iterable[Revision], kept: Iterable[Revision]) -> list[Object]:
    """What pods that share recipes read: which revisions are `kept`. None where no `running` revision mounts it."""
    claim = recipe_claim_name(inference.identity)
    mounted = any(_mounts(revision, claim) for revision in running)
    return [kept_revisions(inference.identity, (each.name for each in kept))] if mounted else []


def _mounts(revision: Revision, claim: str) -> bool:
    volumes = revision.template.get("spec", {}).get("volumes", ())
    return any((each.get("persistentVolumeClaim") or {}).get("claimName") == claim for each in volumes)
