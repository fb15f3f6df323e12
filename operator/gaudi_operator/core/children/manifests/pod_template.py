"""The pod template of a revision: one runtime container, its gate, its probes and its volumes."""

from typing import Any

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.children.manifests.container import container
from gaudi_operator.core.children.manifests.metadata import Object, child_labels, revision_labels
from gaudi_operator.core.children.manifests.volumes import volumes
from gaudi_operator.core.children.runtime_config import repositories
from gaudi_operator.core.names import GATE, PLAN_HASH_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import InstallationDefaults
from gaudi_operator.core.resource import Inference

PRESTOP_SECONDS = 5
EXIT_SECONDS = 10


def pod_template(
    inference: Inference, revision: str, plan_hash: str, config_map: str, defaults: InstallationDefaults
) -> Object:
    """What every pod of `revision` is. Resolves the image and all names, so that a stored template is complete."""
    return {
        "metadata": {
            "labels": {**inference.spec.pod.labels, **child_labels(inference.identity, revision)},
            "annotations": _annotations(inference, plan_hash),
        },
        "spec": {
            "containers": [container(inference, defaults)],
            "volumes": volumes(inference, config_map),
            # The kubelet calls the pod ready only with this condition, and only the operator sets it.
            "readinessGates": [{"conditionType": GATE}],
            "terminationGracePeriodSeconds": PRESTOP_SECONDS + inference.spec.pod.drain_seconds + EXIT_SECONDS,
            "securityContext": _security(inference.spec),
            "serviceAccountName": inference.spec.pod.service_account_name or inference.identity.name,
            "automountServiceAccountToken": False,
            # A variable for each Service of the namespace: thousands would make the environment too large to start.
            "enableServiceLinks": False,
            "topologySpreadConstraints": [_spread(inference, revision)],
            **_placement(inference),
        },
    }


def worker_template(leader: Object) -> Object:
    """The other pods of a group: they take no traffic, so their readiness is that of their container alone."""
    spec = {name: value for name, value in leader["spec"].items() if name != "readinessGates"}
    return {**leader, "spec": spec}


def _annotations(inference: Inference, plan_hash: str) -> dict[str, str]:
    restarted = inference.identity.restarted_at
    return {
        **inference.spec.pod.annotations,
        PLAN_HASH_ANNOTATION: plan_hash,
        **({RESTARTED_AT_ANNOTATION: restarted} if restarted else {}),
    }


def _security(spec: GaudiInferenceSpec) -> Object:
    user = spec.pod.run_as_user
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
        **_group_of_volumes(spec),
    }


def _group_of_volumes(spec: GaudiInferenceSpec) -> Object:
    """A fresh volume belongs to root; what is there already is walked through only when its root has another group."""
    fetched = repositories(spec.model) and spec.model.cache.persistent_volume_claim
    if not (fetched or spec.recipe_cache.enabled):
        return {}
    # Walking through a large cache at each start would take minutes.
    return {"fsGroup": spec.pod.run_as_user, "fsGroupChangePolicy": "OnRootMismatch"}


def _spread(inference: Inference, revision: str) -> Object:
    """Preferred, not required: replicas on several nodes outlive the loss of one, but any node is better than none."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": revision_labels(inference.identity, revision)},
    }


def _placement(inference: Inference) -> Object:
    pod, claim = inference.spec.pod, inference.spec.accelerator.resource_claim_template_name
    fields: dict[str, Any] = {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in pod.tolerations],
        "priorityClassName": pod.priority_class_name,
        "schedulerName": pod.scheduler_name,
        "runtimeClassName": pod.runtime_class_name,
        "imagePullSecrets": [{"name": each.name} for each in pod.image_pull_secrets],
        "resourceClaims": [{"name": "cards", "resourceClaimTemplateName": claim}] if claim else [],
    }
    return {key: value for key, value in fields.items() if value}
