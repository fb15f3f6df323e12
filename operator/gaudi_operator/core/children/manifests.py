"""The manifests of children: workloads of revisions, network access, and objects that scale pods.

The objects of a revision: the ControllerRevision that stores it, and the workload that creates its pods.

The workload is a ReplicaSet, or a LeaderWorkerSet if a replica is a group of pods on several nodes. The operator scales
the workload, whose controller creates and deletes the pods.

Network access to pods: the Service of ready pods, the ServiceAccount of the pods, and the NetworkPolicy.

Pods of the namespace and the installation's gateways can reach the model port, unless the resource lists other clients.
Only the operator and the monitoring can reach the status port. Pods of a group can reach each other. The ServiceAccount
has no permissions, and its token is not mounted.

The objects that control the number of pods: PodDisruptionBudget and HorizontalPodAutoscaler.

Node drains may evict as many pods as a rollout may replace, but at least one (docs/how-to/scaling.md). The autoscaler
writes spec.replicas through the scale subresource. The operator never writes this field.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from gaudi_operator.api.v1alpha1.autoscaling import Autoscaling
from gaudi_operator.api.v1alpha1.network import AccessFrom, ServiceType
from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.core.inference import Inference, InferenceIdentity, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import (
    CONTROLLER_ANNOTATION,
    DESIRED_ANNOTATION,
    IN_PLACE_ANNOTATION,
    NAMESPACE_LABEL,
    OPERATOR_POD_LABELS,
)
from gaudi_operator.core.pods.pod_progress import WARMED_UP_PHASES
from gaudi_operator.core.rendering.metadata import (
    Object,
    add_applied_hash_annotation,
    child_with_metadata,
    revision_labels,
    selector_labels,
    traffic_labels,
)
from gaudi_operator.core.rollout.controller_revision import controller_revision_annotations
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.ports import MODEL_PORT_NAME, STATUS_PORT_NAME


@cache_on_inference
def service_manifest(inference: Inference) -> Object:
    """Build the Service of the resource. It publishes only the model port."""
    owner, service_spec = inference.identity, inference.spec.service
    port = {"name": MODEL_PORT_NAME, "port": service_spec.port, "targetPort": MODEL_PORT_NAME, "protocol": "TCP"}
    if inference.spec.server.tls_secret_name:
        port["appProtocol"] = "https"  # gateways and meshes read this field, not the name of the port
    spec = {"type": service_spec.type.value, "selector": traffic_labels(inference), "ports": [port]}
    manifest = child_with_metadata("v1", "Service", owner.name, owner, {"spec": spec})
    if service_spec.annotations:
        metadata = {**manifest["metadata"], "annotations": dict(service_spec.annotations)}
        return add_applied_hash_annotation({**manifest, "metadata": metadata})
    return manifest


def endpoint_url(inference: Inference) -> str:
    """Return the URL of the OpenAI API inside the cluster. It contains the DNS name of the Service."""
    owner = inference.identity
    scheme = "https" if inference.spec.server.tls_secret_name else "http"
    return f"{scheme}://{owner.name}.{owner.namespace}.svc:{inference.spec.service.port}/v1"


def service_account_manifest(owner: InferenceIdentity) -> Object:
    """Build the ServiceAccount that pods use unless the resource names another account."""
    return child_with_metadata("v1", "ServiceAccount", owner.name, owner, {"automountServiceAccountToken": False})


def network_policy_manifest(inference: Inference, defaults: InstallationDefaults) -> Object:
    """Build the NetworkPolicy, which restricts only ingress to pods."""
    owner = inference.identity
    spec = {
        "podSelector": {"matchLabels": selector_labels(owner)},
        # Restrict ingress only. An egress rule would have to list all model hubs, object stores and registries.
        "policyTypes": ["Ingress"],
        "ingress": [*_client_rules(inference, defaults), _operator_rule(defaults), *_group_rules(inference)],
    }
    return child_with_metadata("networking.k8s.io/v1", "NetworkPolicy", owner.name, owner, {"spec": spec})


def _operator_rule(defaults: InstallationDefaults) -> Object:
    peer = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: defaults.operator_namespace}},
        "podSelector": {"matchLabels": dict(OPERATOR_POD_LABELS)},
    }
    return {"from": [peer, *defaults.monitoring_from], "ports": [_port(STATUS_PORT_NAME)]}


def _group_rules(inference: Inference) -> list[Object]:
    """Return rules that open all ports between the pods of a group, because the libraries of the ranks choose ports."""
    if inference.spec.parallelism.nodes == 1:
        return []
    return [{"from": [{"podSelector": {"matchLabels": selector_labels(inference.identity)}}]}]


def _client_rules(inference: Inference, defaults: InstallationDefaults) -> list[Object]:
    """Return the rules for the model port of a resource with a policy, or no rules if the list of clients is empty.

    In this case a rule would have no peers, which means that all clients are allowed.
    """
    ports = [_port(MODEL_PORT_NAME)]
    access = inference.spec.network_access
    if access.access_from is AccessFrom.EVERYONE:
        # External clients have addresses that no pod or namespace selector matches, so do not restrict the source.
        is_external = inference.spec.service.type is not ServiceType.CLUSTER_IP
        return [{"ports": ports} if is_external else {"from": [{"namespaceSelector": {}}], "ports": ports}]
    if access.access_from is not AccessFrom.CLIENTS:
        return [{"from": [{"podSelector": {}}, *defaults.gateways_from], "ports": ports}]
    return [{"from": list(access.clients), "ports": ports}] if access.clients else []


def _port(name: str) -> Object:
    return {"port": name, "protocol": "TCP"}


def pod_disruption_budget_manifest(inference: Inference, replicas: int, max_unavailable: int) -> Object:
    """Return the budget for all pods of a resource. `max_unavailable` of the `replicas` may be missing.

    The budget sets minAvailable. With maxUnavailable, Kubernetes would use the current size of the ReplicaSets, which
    is too low while pods are replaced in place.

    AlwaysAllow ensures that a pod that does not serve yet never blocks a drain.
    """
    owner = inference.identity
    spec = {
        "minAvailable": _min_available_pods(replicas - max(1, max_unavailable), inference.spec.parallelism.nodes),
        "selector": {"matchLabels": selector_labels(owner)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return child_with_metadata("policy/v1", "PodDisruptionBudget", owner.name, owner, {"spec": spec})


def _min_available_pods(replicas: int, group_size: int) -> int:
    """Return the minimum number of ready pods that keeps `replicas` groups complete. A group has `group_size` pods.

    Evicting one pod ends its whole group. With a lower minimum, the next eviction could end another required group.
    """
    return (replicas + 1) * group_size - 1 if replicas > 0 else 0


METRIC = "gaudi_requests_running"
"""The metric of the pods' own /metrics for running requests (docs/reference/metrics.md)."""

TARGET_PERCENT = 80
"""The default target in percent of a pod's sequences. Kubernetes' own default is 80 % of the requested CPU."""

LEAST_WINDOW, MOST_WINDOW = 300, 3600
"""Bounds of the default stabilization window for scale-down, in seconds: the default and the maximum of Kubernetes."""


def autoscaler_manifest(inference: Inference, autoscaling: Autoscaling, window_seconds: int) -> Object:
    """Build the autoscaler of the resource. `window_seconds` is the default of scaleDown.stabilizationWindowSeconds."""
    owner, behavior = inference.identity, autoscaling.behavior
    spec = {
        "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": owner.name},
        "minReplicas": autoscaling.min_replicas,
        "maxReplicas": autoscaling.max_replicas,
        "metrics": list(autoscaling.metrics) or [_running_requests_metric(inference)],
        "behavior": {**behavior, "scaleDown": _add_window(behavior.get("scaleDown", {}), window_seconds)},
    }
    return child_with_metadata("autoscaling/v2", "HorizontalPodAutoscaler", owner.name, owner, {"spec": spec})


def _add_window(rules: object, seconds: int) -> object:
    """Return scaling rules with a stabilization window. The API server refuses rules of another type."""
    return {"stabilizationWindowSeconds": seconds, **rules} if isinstance(rules, dict) else rules


def _running_requests_metric(inference: Inference) -> Object:
    # Each copy of the weights runs maxNumSeqs sequences.
    sequences = inference.spec.engine.max_num_seqs * inference.spec.parallelism.data
    target = {"type": "AverageValue", "averageValue": str(max(1, sequences * TARGET_PERCENT // 100))}
    return {"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}


def autoscaler_manifest_window(state: State) -> int:
    """Return the default stabilization window in seconds. If a pod is removed too early, a new pod must warm up.

    The window is the measured warm-up time of the plan. Until a pod of the current revision has measured this time, the
    window is the longest warm-up time that serving revisions report.
    """
    plan = state.plan
    if plan is not None and plan.warmup_seconds is not None:
        seconds: float = plan.warmup_seconds
    else:
        reports = (pod.report for pod in state.active_pods if pod.report)
        seconds = max((report.elapsed_seconds for report in reports if report.phase in WARMED_UP_PHASES), default=0)
    return min(max(LEAST_WINDOW, 60 * ceil(seconds / 60)), MOST_WINDOW)


def controller_revision_manifest(owner: InferenceIdentity, revision: Revision, controller: str) -> Object:
    """Build the ControllerRevision that stores a revision. `controller` is the installation that runs the revision.

    Its data is immutable. Its revision number increases each time the revision is selected to run.
    """
    name, body = f"{owner.name}-{revision.name}", {"data": revision.data, "revision": revision.number}
    annotations = {CONTROLLER_ANNOTATION: controller, **controller_revision_annotations(revision)}
    return child_with_metadata("apps/v1", "ControllerRevision", name, owner, body, revision.name, annotations)


def _workload_name(owner: InferenceIdentity, revision: str) -> str:
    """Return the name of the workload of a revision: `<resource>-<revision>`."""
    return f"{owner.name}-{revision}"


def replica_set_manifest(
    owner: InferenceIdentity, revision: str, template: dict[str, Any], replicas: int, annotations: Mapping[str, str]
) -> Object:
    """Build the ReplicaSet of a revision from a stored pod template. `annotations` store the state of the rollout."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": revision_labels(owner, revision)},
        "template": template,
    }
    name = _workload_name(owner, revision)
    return child_with_metadata("apps/v1", "ReplicaSet", name, owner, {"spec": spec}, revision, annotations)


def workload_manifest_annotations(in_place_reason: str | None, full_replicas: int | None) -> dict[str, str]:
    """Return the annotations of a workload that store its rollout state.

    `in_place_reason` is the reason why the rollout replaces pods in place (rollout/rollout_plan.py). `full_replicas` is
    the number of replicas to restore after a back-off (rollout/backoff.py).
    """
    return {
        **({IN_PLACE_ANNOTATION: in_place_reason} if in_place_reason else {}),
        **({} if full_replicas is None else {DESIRED_ANNOTATION: str(full_replicas)}),
    }


GROUPS_API_VERSION, GROUPS_KIND = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"


def leader_worker_set_manifest(
    owner: InferenceIdentity, revision: Revision, replicas: int, annotations: Mapping[str, str]
) -> Object:
    """Build the LeaderWorkerSet with `replicas` groups. `annotations` store the state of the rollout.

    If one pod of a group restarts, the other pods restart themselves (docs/how-to/several-nodes.md, When a pod is
    lost). The LeaderWorkerSet controller would recreate all pods immediately, without a back-off and without counting
    crashes.
    """
    if revision.group is None:
        raise ValueError(f"revision {revision.name} is no group")
    group_template = {
        "size": revision.group.size,
        "leaderTemplate": revision.template,
        "workerTemplate": revision.group.worker_template,
        # Do not use RecreateGroupOnPodRestart, because it recreates a failing group without a back-off.
        "restartPolicy": "None",
    }
    spec = {"replicas": replicas, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": group_template}
    name = _workload_name(owner, revision.name)
    return child_with_metadata(GROUPS_API_VERSION, GROUPS_KIND, name, owner, {"spec": spec}, revision.name, annotations)
