"""All children that a resource should have now, as complete manifests in the order in which they are written."""

from collections.abc import Iterable, Mapping
from typing import Any

from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.inference import Identity, Inference
from gaudi_operator.core.manifests.config_map import config_map
from gaudi_operator.core.manifests.controller_revision import controller_revision
from gaudi_operator.core.manifests.horizontal_pod_autoscaler import horizontal_pod_autoscaler
from gaudi_operator.core.manifests.leader_worker_set import leader_worker_set
from gaudi_operator.core.manifests.metadata import Object
from gaudi_operator.core.manifests.network_policy import network_policy
from gaudi_operator.core.manifests.pod_disruption_budget import pod_disruption_budget
from gaudi_operator.core.manifests.replica_set import replica_set, rollout_annotations
from gaudi_operator.core.manifests.service import service
from gaudi_operator.core.manifests.service_account import service_account
from gaudi_operator.core.revision import Revision
from gaudi_operator.core.rollout import Policy


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
        pod_disruption_budget(inference, policy.wished, policy.max_unavailable),
        service(inference),
        *([horizontal_pod_autoscaler(owner, wished)] if (wished := inference.spec.autoscaling) else []),
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
