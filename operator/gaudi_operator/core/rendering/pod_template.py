"""The pod template of a revision: its containers, gate, volumes, security context and scheduling."""

from itertools import chain
from typing import Any

from gaudi_operator.api.base import dump_non_defaults
from gaudi_operator.api.v1alpha1.pods.pod import DEFAULT_USER, Pod
from gaudi_operator.api.v1alpha1.pods.scheduling import PodAffinity
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import GATE, PLAN_HASH_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rendering.container import runtime_container, side_containers
from gaudi_operator.core.rendering.metadata import Object, child_labels, revision_labels, selector_labels
from gaudi_operator.core.rendering.model_files import hub_repositories
from gaudi_operator.core.rendering.volumes import pod_volumes
from gaudi_operator.core.resource import Identity, Inference

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
            "volumes": pod_volumes(inference, config_map),
            # The kubelet reports the pod as ready only if this condition is True. Only the operator sets the condition.
            "readinessGates": [{"conditionType": GATE}],
            "terminationGracePeriodSeconds": PRESTOP_SECONDS + inference.spec.pod.drain_seconds + EXIT_SECONDS,
            "securityContext": _pod_security_context(inference.spec),
            "serviceAccountName": inference.spec.pod.service_account_name or inference.identity.name,
            "automountServiceAccountToken": False,
            # Service links add environment variables for each Service of the namespace. With thousands of Services, the
            # process could not start.
            "enableServiceLinks": False,
            "topologySpreadConstraints": _spread_constraints(inference, revision),
            **_scheduling_fields(inference, defaults),
            **({"initContainers": more} if (more := side_containers(inference.spec.pod)) else {}),
        },
    }


def worker_template(leader: Object) -> Object:
    """Return the pod template of a group's workers. They have no readiness gate, because they receive no traffic."""
    spec = {name: value for name, value in leader["spec"].items() if name != "readinessGates"}
    return {**leader, "spec": spec}


def _annotations(inference: Inference, plan_hash: str) -> dict[str, str]:
    restarted = inference.identity.restarted_at
    return {
        **inference.spec.pod.annotations,
        PLAN_HASH_ANNOTATION: plan_hash,
        **({RESTARTED_AT_ANNOTATION: restarted} if restarted else {}),
    }


def _pod_security_context(spec: GaudiInferenceSpec) -> Object:
    """Return the security context of the pod. User and groups are left out if the cluster assigns them (OpenShift)."""
    user, pod = spec.pod.run_as_user, spec.pod
    return {
        "runAsNonRoot": True,
        **({} if pod.user_from_cluster else {"runAsUser": user, "runAsGroup": _group_id(spec)}),
        "seccompProfile": {"type": "RuntimeDefault"},
        **_fs_group_settings(spec),
        **({"supplementalGroups": list(pod.supplemental_groups)} if pod.supplemental_groups else {}),
    }


def _group_id(spec: GaudiInferenceSpec) -> int:
    """Return the group ID, which is the user ID. If node folders are mounted, return the fixed group of their files."""
    sources = (spec.model.source, *(each.source for each in spec.model.adapters))
    return DEFAULT_USER if any(each.host_path for each in sources) else spec.pod.run_as_user


def _fs_group_settings(spec: GaudiInferenceSpec) -> Object:
    """Return the fsGroup settings of the pod.

    New volumes belong to root, so Kubernetes changes their group. Volumes that already have the right group are not
    changed.
    """
    fetched = hub_repositories(spec.model) and spec.model.cache.persistent_volume_claim
    if not (fetched or spec.recipe_cache.enabled or _writes_to_a_claim(spec.pod)):
        return {}
    # Changing the group of all files in a large cache takes minutes. This policy avoids the change at each start.
    lazily = {"fsGroupChangePolicy": "OnRootMismatch"}
    return lazily if spec.pod.user_from_cluster else {"fsGroup": _group_id(spec), **lazily}


def _writes_to_a_claim(pod: Pod) -> bool:
    claims = {each.name for each in pod.volumes if each.persistent_volume_claim}
    others = chain.from_iterable(each.volume_mounts for each in (*pod.init_containers, *pod.sidecars))
    return any(each.name in claims and not each.read_only for each in (*pod.volume_mounts, *others))


HOSTNAME = "kubernetes.io/hostname"


def _spread_constraints(inference: Inference, revision: str) -> list[Object]:
    """Return the topology spread constraints. The spread over nodes is only preferred, so that all pods can start."""
    asked = inference.spec.pod.topology_spread_constraints
    ours = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": revision_labels(inference.identity, revision)},
    }
    theirs = [_add_label_selector(dump_non_defaults(each), inference.identity) for each in asked]
    return theirs if any(each.topology_key == HOSTNAME for each in asked) else [ours, *theirs]


def _add_label_selector(term: Object, identity: Identity) -> Object:
    """Return the term. If the term has no label selector, it gets a selector for the pods of the resource."""
    return {"labelSelector": {"matchLabels": selector_labels(identity)}, **term}


def _affinity(inference: Inference) -> Object:
    asked, identity = inference.spec.pod.affinity, inference.identity
    if asked is None:
        return {}
    parts = {
        "nodeAffinity": dump_non_defaults(asked.node_affinity) if asked.node_affinity else {},
        "podAffinity": _pod_affinity(asked.pod_affinity, identity),
        "podAntiAffinity": _pod_affinity(asked.pod_anti_affinity, identity),
    }
    return {name: part for name, part in parts.items() if part}


def _pod_affinity(asked: PodAffinity | None, identity: Identity) -> Object:
    found = dump_non_defaults(asked) if asked else {}
    required, preferred = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
    terms = {
        required: [_add_label_selector(each, identity) for each in found.get(required, ())],
        preferred: [
            {**each, "podAffinityTerm": _add_label_selector(each["podAffinityTerm"], identity)}
            for each in found.get(preferred, ())
        ],
    }
    return {kind: each for kind, each in terms.items() if each}


def _scheduling_fields(inference: Inference, defaults: InstallationDefaults) -> Object:
    pod, claim = inference.spec.pod, inference.spec.accelerator.resource_claim_template_name
    fields: dict[str, Any] = {
        "nodeSelector": dict(pod.node_selector),
        "affinity": _affinity(inference),
        "tolerations": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in pod.tolerations],
        "priorityClassName": pod.priority_class_name,
        "schedulerName": pod.scheduler_name,
        "runtimeClassName": pod.runtime_class_name,
        "imagePullSecrets": [{"name": name} for name in _pull_secrets(pod, defaults)],
        "resourceClaims": [{"name": "cards", "resourceClaimTemplateName": claim}] if claim else [],
    }
    return {key: value for key, value in fields.items() if value}


def _pull_secrets(pod: Pod, defaults: InstallationDefaults) -> tuple[str, ...]:
    """Return the pull secrets of the resource or its class, or the installation's secrets if there are none.

    Only the kubelet reads these secrets.
    """
    return tuple(each.name for each in pod.image_pull_secrets) or defaults.image_pull_secrets
