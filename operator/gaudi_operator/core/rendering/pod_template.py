"""The pod template of a revision: its containers, gate, volumes, security context and scheduling."""

from itertools import chain
from typing import Any

from gaudi_operator.api.v1alpha1.pods.pod import DEFAULT_USER, Pod
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import GATE, PLAN_HASH_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rendering.container import runtime_container, side_containers
from gaudi_operator.core.rendering.metadata import Object, child_labels, revision_labels
from gaudi_operator.core.rendering.pod_volumes import hub_repositories, pod_volumes

PRESTOP_SECONDS = 5
EXIT_SECONDS = 10


def pod_template(
    inference: Inference, revision: str, plan_hash: str, config_map: str, defaults: InstallationDefaults
) -> Object:
    """Return the pod template of `revision`. Image and names are resolved, so that a stored template is complete."""
    return {
        "metadata": {
            "labels": {**inference.spec.pod.labels, **child_labels(inference.identity, revision)},
            "annotations": _annotations(inference, plan_hash),
        },
        "spec": {
            "containers": [runtime_container(inference, defaults)],
            "volumes": pod_volumes(inference, config_map, defaults),
            # The kubelet reports the pod as ready only if this condition is True. Only the operator sets the condition.
            "readinessGates": [{"conditionType": GATE}],
            "terminationGracePeriodSeconds": PRESTOP_SECONDS + inference.spec.pod.drain_seconds + EXIT_SECONDS,
            "securityContext": _pod_security_context(inference.spec, defaults),
            "serviceAccountName": inference.spec.pod.service_account_name or inference.identity.name,
            "automountServiceAccountToken": False,
            # Service links add environment variables for each Service of the namespace. With thousands of Services, the
            # process could not start.
            "enableServiceLinks": False,
            "topologySpreadConstraints": _spread_constraints(inference, revision),
            **_scheduling_fields(inference, defaults),
            **({"initContainers": init_containers} if (init_containers := side_containers(inference.spec.pod)) else {}),
        },
    }


def worker_template(leader_template: Object) -> Object:
    """Return the pod template of a group's workers. They have no readiness gate, because they receive no traffic."""
    spec = {name: value for name, value in leader_template["spec"].items() if name != "readinessGates"}
    return {**leader_template, "spec": spec}


def _annotations(inference: Inference, plan_hash: str) -> dict[str, str]:
    restarted_at = inference.identity.restarted_at
    return {
        **inference.spec.pod.annotations,
        PLAN_HASH_ANNOTATION: plan_hash,
        **({RESTARTED_AT_ANNOTATION: restarted_at} if restarted_at else {}),
    }


def _pod_security_context(spec: GaudiInferenceSpec, defaults: InstallationDefaults) -> Object:
    """Return the security context of the pod. User and groups are left out if the cluster assigns them (OpenShift)."""
    pod = spec.pod
    user = pod.run_as_user or (None if defaults.user_from_cluster else DEFAULT_USER)
    group = user and _group_id(spec, user)
    return {
        "runAsNonRoot": True,
        **({"runAsUser": user, "runAsGroup": group} if user else {}),
        "seccompProfile": {"type": "RuntimeDefault"},
        **_fs_group_settings(spec, group),
        **({"supplementalGroups": list(pod.supplemental_groups)} if pod.supplemental_groups else {}),
    }


def _group_id(spec: GaudiInferenceSpec, user: int) -> int:
    """Return the group ID, which is the user ID. If node folders are mounted, return the fixed group of their files."""
    sources = (spec.model.source, *(adapter.source for adapter in spec.model.lora.adapters))
    return DEFAULT_USER if any(source.host_path for source in sources) else user


def _fs_group_settings(spec: GaudiInferenceSpec, group: int | None) -> Object:
    """Return the fsGroup settings of the pod.

    New volumes belong to root, so Kubernetes changes their group. Volumes that already have the right group are not
    changed.
    """
    fetched = hub_repositories(spec.model) and spec.model.cache.existing_claim
    if not (fetched or spec.recipe_cache or _writes_to_a_claim(spec.pod)):
        return {}
    # Changing the group of all files in a large cache takes minutes. This policy avoids the change at each start.
    change_policy = {"fsGroupChangePolicy": "OnRootMismatch"}
    return {"fsGroup": group, **change_policy} if group else change_policy


def _writes_to_a_claim(pod: Pod) -> bool:
    claims = {volume.name for volume in pod.volumes if "persistentVolumeClaim" in (volume.model_extra or {})}
    side_container_mounts = chain.from_iterable(
        container.volume_mounts for container in (*pod.init_containers, *pod.sidecars)
    )
    return any(mount.name in claims and not mount.read_only for mount in (*pod.volume_mounts, *side_container_mounts))


HOSTNAME = "kubernetes.io/hostname"


def _spread_constraints(inference: Inference, revision: str) -> list[Object]:
    """Return the topology spread constraints. The spread over nodes is only preferred, so that all pods can start."""
    constraints = inference.spec.pod.topology_spread_constraints
    default_constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": revision_labels(inference.identity, revision)},
    }
    rendered = [constraint.model_dump(mode="json", by_alias=True) for constraint in constraints]
    replaces_default = any(constraint.topology_key == HOSTNAME for constraint in constraints)
    return rendered if replaces_default else [default_constraint, *rendered]


def _scheduling_fields(inference: Inference, defaults: InstallationDefaults) -> Object:
    pod, claim_template = inference.spec.pod, inference.spec.accelerator.resource_claim_template_name
    fields: dict[str, Any] = {
        "nodeSelector": dict(pod.node_selector),
        "affinity": pod.affinity,
        "tolerations": [
            toleration.model_dump(mode="json", by_alias=True, exclude_none=True) for toleration in pod.tolerations
        ],
        "priorityClassName": pod.priority_class_name,
        "schedulerName": pod.scheduler_name,
        "runtimeClassName": pod.runtime_class_name,
        "imagePullSecrets": [{"name": name} for name in _pull_secrets(pod, defaults)],
        "resourceClaims": [{"name": "cards", "resourceClaimTemplateName": claim_template}] if claim_template else [],
    }
    return {key: value for key, value in fields.items() if value}


def _pull_secrets(pod: Pod, defaults: InstallationDefaults) -> tuple[str, ...]:
    """Return the pull secrets of the resource or its class, or the installation's secrets if there are none.

    Only the kubelet reads these secrets.
    """
    return tuple(secret.name for secret in pod.image_pull_secrets) or defaults.image_pull_secrets
