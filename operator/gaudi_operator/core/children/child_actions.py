"""The desired children of a resource, their garbage, and their writes and deletions in order.

ControllerRevisions are written first, so that no rendered template or failure is lost. A workload is written after the
objects that its pods mount. A new workload precedes the others. If the API server refuses its pod template, no other
workload has been scaled down for it. The recipe PVC and its ConfigMap are handled separately. The PVC exists while the
spec requests it or a running revision mounts it. The PVC is written last.

Garbage is unused workloads, old revisions, and ConfigMaps that no pod reads.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.api.v1alpha1.network import NetworkAccess, ServiceType
from gaudi_operator.api.v1alpha1.warmup import RecipeCache, RetentionPolicy
from gaudi_operator.core.actions import Action, Apply, Delete
from gaudi_operator.core.admission.pod_policy import find_policy_violations, render_for_policy
from gaudi_operator.core.children.drift import drifted_field
from gaudi_operator.core.children.manifests import (
    autoscaler_manifest,
    autoscaler_manifest_window,
    controller_revision_manifest,
    leader_worker_set_manifest,
    network_policy_manifest,
    pod_disruption_budget_manifest,
    replica_set_manifest,
    service_account_manifest,
    service_manifest,
    workload_manifest_annotations,
)
from gaudi_operator.core.inference import Inference, InferenceIdentity, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import APPLIED_HASH_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.nested_objects import read_nested_objects, read_text
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.pod_view import ENDED
from gaudi_operator.core.rendering.metadata import Object
from gaudi_operator.core.rendering.pod_volumes import kept_revisions_config_map, recipe_pvc, recipe_pvc_name
from gaudi_operator.core.rendering.runtime_config import runtime_config_map
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.rollout.workload_replicas import (
    PlannedReplicas,
    count_ending_workload_pods,
    full_replicas,
    live_workloads,
    revision_of_workload,
    revisions_with_running_workloads,
    revisions_with_workloads,
    spec_replicas_by_revision,
)
from gaudi_operator.core.text_formats import hash_texts


@dataclass(frozen=True)
class UnusedChildren:
    """The deletions of unused workloads and ControllerRevisions, and the names of the affected revisions.

    `used_names` belong to revisions that must stay, `expired_names` to revisions that are deleted.
    """

    deletes: list[Delete]
    used_names: set[str]
    expired_names: set[str]


def find_unused_children(
    observed: Observed, names: Iterable[str], stored: Iterable[Revision], history_limit: int, stable: str | None = None
) -> UnusedChildren:
    """Find workloads and revisions that are no longer needed.

    A revision is in use if its name is in `names`, or if it has active pods or desired replicas. Ended pods do not
    count. They are deleted with their workload, and the status keeps the last error (rollout/backoff.py). `stored` is
    sorted newest first. `history_limit` is the number of unused revisions to keep in addition to the `stable` revision.
    """
    used_names = {*names, *(_revision_name(pod) for pod in (*observed.pods, *observed.workers) if not _has_ended(pod))}
    used_names |= {revision_of_workload(workload) for workload in observed.workloads if full_replicas(workload)}
    # Keep the stable revision regardless of its age, because a failed rollout returns to it.
    unused_names = [revision.name for revision in stored if revision.name not in {*used_names, stable}]
    expired_names = set(unused_names[history_limit:])
    unused_workloads = (workload for workload in observed.workloads if revision_of_workload(workload) not in used_names)
    expired_revisions = (revision for revision in observed.revisions if _revision_name(revision) in expired_names)
    deletes = [
        *_deletes(unused_workloads, "its revision was replaced and has no pods"),
        *_deletes(expired_revisions, "the history of revisions is full"),
    ]
    return UnusedChildren(deletes, used_names, expired_names)


def unread_config_map_actions(observed: Observed, needed_names: Collection[str | None]) -> list[Delete]:
    """Return the deletions of all ConfigMaps whose names are not in `needed_names`."""
    unread = (config_map for config_map in observed.config_maps if config_map["metadata"]["name"] not in needed_names)
    return _deletes(unread, "no pod uses it")


def _delete_child(child: Manifest, reason: str) -> Delete:
    """Return the deletion of one observed child."""
    metadata = child["metadata"]
    return Delete(child["apiVersion"], child["kind"], metadata["name"], metadata["uid"], reason)


def _has_ended(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


def _deletes(objects: Iterable[Manifest], reason: str) -> list[Delete]:
    return [_delete_child(child, reason) for child in objects if "deletionTimestamp" not in child["metadata"]]


def _revision_name(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def child_actions(state: State, scaling: PlannedReplicas) -> list[Action]:
    """Return the writes and deletions of children. Without a current revision, only back-offs change workloads.

    If a Service, NetworkPolicy or PVC would exceed a limit of the class, the live child stays as it is. A child that is
    missing is created within the limits.
    """
    observed, current = state.observed, state.rollout.current
    if current is None:
        return _back_off_writes(state, scaling)
    rendered = render_for_policy(state.inference, current, limited_children(state.inference, state.defaults))
    refused_kinds = {violation.kind for violation in find_policy_violations(rendered, state.platform) if violation.kind}
    inference = state.inference
    if refused_kinds:
        inference = _within_limits(inference, refused_kinds, state.platform.limits)
    history_limit = inference.spec.rollout.revision_history_limit
    desired_names = {current.name, *(name for name, count in scaling.full_replicas.items() if count)}
    garbage = find_unused_children(observed, desired_names, state.stored, history_limit, state.stable_name)
    # A revision without an entry in `scaling` has only terminating pods left, and its workload is gone.
    in_use = garbage.used_names & scaling.replicas.keys()
    revisions = revisions_with_running_workloads(current, state.stored, observed, in_use)
    # The operator's own deletions trigger no reconcile. Therefore this reconcile also writes the children that depend
    # on them.
    kept_revisions = (revision for revision in state.revisions if revision.name not in garbage.expired_names)
    config_maps = recipe_config_map_children(inference, revisions, kept_revisions)
    needed_names = {
        *(revision.config_map_name for revision in revisions),
        *(config_map["metadata"]["name"] for config_map in config_maps),
    }
    actions = [
        *_missing_writes([*config_maps, *_desired_children(inference, state, revisions, scaling)], observed.children),
        *garbage.deletes,
        *unread_config_map_actions(observed, needed_names),
        *recipe_pvc_actions(inference, revisions, observed.pvcs),
        *_disabled_child_deletes(inference, observed),
    ]
    return [action for action in actions if not _changes_live_child(refused_kinds, action, observed)]


def _within_limits(inference: Inference, kinds: Collection[str], limits: ClassLimits) -> Inference:
    """Return the resource with values that every class allows for the children of these kinds."""
    service_spec, cache = inference.spec.service, inference.spec.recipe_cache
    smaller_cache = cache and cache.model_copy(update={"size": limits.max_recipe_cache_size})
    allowed = {
        "NetworkPolicy": ("network_access", NetworkAccess()),
        "Service": ("service", service_spec.model_copy(update={"type": ServiceType.CLUSTER_IP, "annotations": {}})),
        "PersistentVolumeClaim": ("recipe_cache", smaller_cache),
    }
    return replace(inference, spec=inference.spec.model_copy(update=dict(allowed[kind] for kind in kinds)))


def _changes_live_child(kinds: Collection[str], action: Action, observed: Observed) -> bool:
    """Return True if the action changes a live child of these kinds."""
    if not isinstance(action, Apply) or action.manifest["kind"] not in kinds:
        return False
    key = (action.manifest["kind"], action.manifest["metadata"]["name"])
    return any((child["kind"], child["metadata"]["name"]) == key for child in (*observed.children, *observed.pvcs))


@cache_on_inference
def limited_children(inference: Inference, defaults: InstallationDefaults) -> dict[str, Object]:
    """Return the children that a class may limit and that the spec requests, by kind."""
    access, cache = inference.spec.network_access, inference.spec.recipe_cache
    children = [
        service_manifest(inference),
        *([network_policy_manifest(inference, defaults)] if access.is_managed else []),
        *([recipe_pvc(inference.identity, cache, None)] if cache and not cache.existing_claim else []),
    ]
    return {child["kind"]: child for child in children}


def _missing_writes(children: Iterable[Object], observed: Iterable[Manifest]) -> list[Action]:
    """Return an Apply for each desired child whose live object is missing or differs.

    `children` are complete manifests, in the order of their writes. `observed` are live objects of any kind.
    """
    live_objects = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in observed}
    writes = [_child_write(child, live_objects.get((child["kind"], child["metadata"]["name"]))) for child in children]
    return [write for write in writes if write is not None]


def _child_write(child: Object, live: Manifest | None) -> Action | None:
    if live is None:
        return Apply(child, "it does not exist")
    # The object is being deleted, so an apply would be lost. The next reconcile creates a new object.
    if "deletionTimestamp" in live["metadata"]:
        return None
    hashed_child = hash_child_texts(child)
    changed_field = drifted_field(hashed_child, live)
    if changed_field is None:
        return None
    if child.get("immutable") and drifted_field(hashed_child["data"], live.get("data")):
        return _delete_child(live, "its content does not match its name, and it is immutable: it is recreated")
    if _applied_hash(child) != _applied_hash(live):
        return Apply(child, "the desired content has changed")
    return Apply(child, f"{changed_field} was changed by another client")


def hash_child_texts(child: Object) -> Object:
    """Return a desired child in the form in which the store keeps live objects, for comparison.

    The store keeps hashes in place of the texts of a ConfigMap.
    """
    return {**child, "data": hash_texts(child["data"])} if child["kind"] == "ConfigMap" else child


def _applied_hash(manifest: Manifest) -> object:
    return (manifest["metadata"].get("annotations") or {}).get(APPLIED_HASH_ANNOTATION)


def _desired_children(
    inference: Inference, state: State, revisions: Sequence[Revision], scaling: PlannedReplicas
) -> list[Object]:
    """Return the manifests of all desired children. `revisions` are the revisions whose pods must be able to start."""
    policy, full_replicas = state.rollout.policy, scaling.full_replicas.values()
    # A forbidden revision gets no more pods. A budget for pods that never exist would refuse every drain.
    expected_pods = sum(full_replicas) + count_ending_workload_pods(state.pods, state.observed, state.deadlines)
    owner, autoscaling = inference.identity, inference.spec.autoscaling
    children = [
        *(
            controller_revision_manifest(owner, revision, state.defaults.controller)
            for revision in state.rollout.revisions_to_record
        ),
        *([service_account_manifest(owner)] if _uses_own_account(owner.name, revisions) else []),
        *(runtime_config_map(owner, revision.config) for revision in revisions if revision.config),
        *([network_policy_manifest(inference, state.defaults)] if inference.spec.network_access.is_managed else []),
        pod_disruption_budget_manifest(inference, min(policy.replicas, expected_pods), policy.max_unavailable),
        service_manifest(inference),
        *([autoscaler_manifest(inference, autoscaling, autoscaler_manifest_window(state))] if autoscaling else []),
        *_desired_workloads(state, revisions, scaling),
    ]
    # Revisions that differ only in their pod template share a ConfigMap. The dictionary removes its duplicates.
    return list({(child["kind"], child["metadata"]["name"]): child for child in children}.values())


def _desired_workloads(state: State, revisions: Iterable[Revision], scaling: PlannedReplicas) -> Iterable[Object]:
    """Yield the manifests of workloads: new workloads, then those that are scaled down, then those that are scaled up.

    New workloads get no replicas while others are scaled down. The desired pods therefore never exceed the surge limit
    between two writes.
    """
    full_replicas, live_replicas = _replicas_after_back_off(state, scaling), spec_replicas_by_revision(state.observed)
    scales_down = any(scaling.replicas.get(name, count) < count for name, count in live_replicas.items())

    def write_order(revision: Revision) -> tuple[bool, bool]:
        live_count = live_replicas.get(revision.name, 0)
        return revision.name in live_replicas, scaling.replicas.get(revision.name, 0) > live_count

    for revision in sorted(revisions, key=write_order):
        if revision.name in scaling.replicas:
            is_new = revision.name not in live_replicas
            reason = state.rollout.in_place_reason if revision.name == state.current_name else None
            annotations = workload_manifest_annotations(reason, full_replicas.get(revision.name))
            replicas = 0 if is_new and scales_down else scaling.replicas[revision.name]
            yield _render_workload(state.inference.identity, revision, replicas, annotations)


def _back_off_writes(state: State, scaling: PlannedReplicas) -> list[Action]:
    """Return the writes that lower replicas for back-offs, or restore them. Deleted revisions are included."""
    live_replicas = {
        name: workload["spec"].get("replicas") for name, workload in live_workloads(state.observed).items()
    }
    # Skip workloads that already have the right number of replicas. Their manifest is only a copy from the API server.
    changed = [
        revision
        for revision in revisions_with_workloads(state.stored, state.observed)
        if scaling.replicas.get(revision.name) != live_replicas[revision.name]
    ]
    return _missing_writes(_desired_workloads(state, changed, scaling), state.observed.children)


def _replicas_after_back_off(state: State, scaling: PlannedReplicas) -> dict[str, int]:
    """Return the replicas that a back-off must later restore to older revisions.

    The rollout itself restores the replicas of the current revision.
    """
    excluded = {state.current_name, *(revision.name for revision in state.revisions if revision.failure)}
    lowered_names = (name for name, count in scaling.replicas.items() if count < scaling.full_replicas[name])
    return {name: scaling.full_replicas[name] for name in lowered_names if name not in excluded}


def _disabled_child_deletes(inference: Inference, observed: Observed) -> list[Action]:
    spec = inference.spec
    policies = () if spec.network_access.is_managed else observed.network_policies
    autoscalers = () if spec.autoscaling else observed.autoscalers
    return [
        *(_delete_child(policy, "spec.networkAccess.from is Unmanaged") for policy in policies),
        *(_delete_child(autoscaler, "spec.autoscaling is left out") for autoscaler in autoscalers),
    ]


def _render_workload(
    owner: InferenceIdentity, revision: Revision, replicas: int, annotations: Mapping[str, str]
) -> Object:
    if revision.group:
        return leader_worker_set_manifest(owner, revision, replicas, annotations)
    return replica_set_manifest(owner, revision.name, revision.template, replicas, annotations)


def _uses_own_account(name: str, revisions: Iterable[Revision]) -> bool:
    return any(_service_account_name(revision.template) == name for revision in revisions)


def _service_account_name(template: Mapping[str, Any]) -> object:
    return template.get("spec", {}).get("serviceAccountName")


def recipe_pvc_actions(inference: Inference, revisions: Iterable[Revision], pvcs: Sequence[Manifest]) -> list[Action]:
    """Return the writes and deletions of the recipe PVC. `pvcs` are the live PVCs.

    These actions follow all other writes. If a class or quota refuses them, running pods are not affected.
    """
    pvc_name, cache = recipe_pvc_name(inference.identity), inference.spec.recipe_cache
    live_pvc = next((pvc for pvc in pvcs if pvc["metadata"]["name"] == pvc_name), None)
    is_mounted = any(_mounts(revision, "persistentVolumeClaim", "claimName", pvc_name) for revision in revisions)
    # Recreate a deleted PVC while revisions mount it, even if the cache is off. Otherwise their pods stay pending.
    if (cache and not cache.existing_claim) or (is_mounted and live_pvc is None):
        return _missing_writes([recipe_pvc(inference.identity, cache or RecipeCache(), live_pvc)], pvcs)
    if is_mounted or (cache and cache.retention_policy is RetentionPolicy.RETAIN):
        return []
    # Keep a PVC without an owner reference. It was retained, possibly for a deleted resource of the same name.
    pvcs_and_metadata = [(pvc, pvc["metadata"]) for pvc in pvcs]
    owned_pvcs = [
        pvc
        for pvc, pvc_metadata in pvcs_and_metadata
        if "deletionTimestamp" not in pvc_metadata and pvc_metadata.get("ownerReferences")
    ]
    return [_delete_child(pvc, "spec.recipeCache is switched off and no pod mounts it") for pvc in owned_pvcs]


def recipe_config_map_children(
    inference: Inference, running: Iterable[Revision], kept_revisions: Iterable[Revision]
) -> list[Object]:
    """Return the ConfigMap of `kept_revisions` if pods of a `running` revision mount it, or no child."""
    name = recipe_pvc_name(inference.identity)
    is_mounted = any(_mounts(revision, "configMap", "name", name) for revision in running)
    names = (revision.name for revision in kept_revisions)
    return [kept_revisions_config_map(inference.identity, names)] if is_mounted else []


def _mounts(revision: Revision, source_kind: str, name_key: str, name: str) -> bool:
    """Return True if the revision's pods mount the object with this name."""
    volumes = read_nested_objects(revision.template, "spec", "volumes")
    return any(read_text(volume, source_kind, name_key) == name for volume in volumes)
