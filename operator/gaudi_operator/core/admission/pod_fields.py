"""The pod template fields that this operator can render, and the permitted security contexts.

Any user with permission to write ControllerRevisions can store a pod template. Therefore the operator refuses stored
templates with fields or security contexts that core/rendering never writes. Fields that the API server adds to stored
workloads are permitted, because the operator may read a revision back from a workload.

The chart applies the same rules to the operator's account (charts/gaudi-operator/templates/operator-policy.yaml).
"""

from collections.abc import Iterator, Mapping
from re import fullmatch
from typing import Any

from gaudi_operator.api.v1alpha1.pods.pod import Capability
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.text_formats import parse_int32

Object = Mapping[str, Any]

POD_FIELDS = frozenset(
    {
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsPolicy",
        "enableServiceLinks",
        "imagePullSecrets",
        "initContainers",
        "nodeSelector",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
CONTAINER_FIELDS = frozenset(
    {
        "args",
        "command",
        "env",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "restartPolicy",
        "securityContext",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "volumeMounts",
        "workingDir",
    }
)
POD_SECURITY_FIELDS = frozenset(
    {
        "fsGroup",
        "fsGroupChangePolicy",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seccompProfile",
        "supplementalGroups",
    }
)
RIGHTS_FIELDS = frozenset({"allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem"})
PORT_FIELDS = frozenset({"containerPort", "name", "protocol"})
PROBE_FIELDS = frozenset({"failureThreshold", "httpGet", "periodSeconds", "successThreshold", "timeoutSeconds"})
MOUNT_FIELDS = frozenset({"mountPath", "name", "readOnly", "subPath"})
VOLUME_FIELDS = frozenset(
    {
        "configMap",
        "csi",
        "emptyDir",
        "hostPath",
        "image",
        "name",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
PROJECTED_FIELDS = frozenset({"configMap", "downwardAPI", "secret"})


def unrendered_field(template: Object) -> str | None:
    """Return the first field of a pod template that the operator never renders, or None if there is no such field.

    Containers and volumes must be lists of objects, and supplemental groups must be a list, as in a PodView.
    """
    return next(_unrendered_fields(template.get("spec") or {}), None)


def _unrendered_fields(spec: Object) -> Iterator[str]:
    yield from _unknown_fields("spec", spec, POD_FIELDS)
    if spec.get("automountServiceAccountToken") is not False:
        yield "spec.automountServiceAccountToken"
    if not _is_unprivileged(_get_object(spec, "securityContext")):
        yield "spec.securityContext"
    folders = list[str]()
    for volume in spec.get("volumes", ()):
        yield from _unknown_fields("spec.volumes", volume, VOLUME_FIELDS)
        for source in _get_objects(_get_object(volume, "projected"), "sources"):
            yield from _unknown_fields("spec.volumes.projected", source, PROJECTED_FIELDS)
        if "hostPath" in volume:
            folders.append(volume["name"])
        # If `hostPath.type` is set, the kubelet may create the folder on the node.
        if _get_object(volume, "hostPath").get("type"):
            yield "spec.volumes.hostPath.type"
    for where in ("containers", "initContainers"):
        for each in spec.get(where, ()):
            yield from _unrendered_container_fields(f"spec.{where}", each, folders)


def _unrendered_container_fields(where: str, container: Object, folders: list[str]) -> Iterator[str]:
    yield from _unknown_fields(where, container, CONTAINER_FIELDS)
    if not _has_rendered_security(_get_object(container, "securityContext"), container["name"]):
        yield f"{where}.securityContext"
    for port in _get_objects(container, "ports"):
        yield from _unknown_fields(f"{where}.ports", port, PORT_FIELDS)
    for name in ("livenessProbe", "readinessProbe"):
        yield from _unknown_fields(f"{where}.{name}", _get_object(container, name), PROBE_FIELDS)
        # With `host`, a pod could make the kubelet send requests to any host that the node can reach.
        if "host" in _get_object(_get_object(container, name), "httpGet"):
            yield f"{where}.{name}.httpGet.host"
    hook = _get_object(container, "lifecycle")
    yield from _unknown_fields(f"{where}.lifecycle", hook, frozenset({"preStop"}))
    yield from _unknown_fields(f"{where}.lifecycle.preStop", _get_object(hook, "preStop"), frozenset({"exec"}))
    for mount in _get_objects(container, "volumeMounts"):
        yield from _unknown_fields(f"{where}.volumeMounts", mount, MOUNT_FIELDS)
        if mount.get("name") in folders and mount.get("readOnly") is not True:
            yield f"{where}.volumeMounts.readOnly"
    for amounts in ("limits", "requests"):
        for name, amount in _get_object(_get_object(container, "resources"), amounts).items():
            if is_device(name) and parse_device_count(amount) is None:
                yield f"{where}.resources.{amounts}"


def is_device(resource: str) -> bool:
    """Return True if a resource name in a pod template is the name of a device, such as a card.

    Only the names of devices contain a domain.
    """
    return "/" in resource


def parse_device_count(amount: object) -> int | None:
    """Return the number of devices in a resource field of a pod template, or None if it is not a valid number."""
    number = parse_int32(str(amount))
    return None if number is None or number < 0 else number


def _unknown_fields(where: str, found: Object, known: frozenset[str]) -> Iterator[str]:
    # Users choose the names of unknown fields. Condition messages repeat only names that consist of letters.
    strange = (name if fullmatch("[A-Za-z]{1,64}", name) else "?" for name in found if name not in known)
    return (f"{where}.{name}" for name in strange)


def _is_unprivileged(security: Object) -> bool:
    ids = [security[name] for name in ("fsGroup", "runAsGroup", "runAsUser") if name in security]
    groups = security.get("supplementalGroups", [])
    return (
        security.keys() <= POD_SECURITY_FIELDS
        and security.get("runAsNonRoot") is True
        and security.get("seccompProfile") == {"type": "RuntimeDefault"}
        and all(isinstance(each, int) and each > 0 for each in (*ids, *groups))
    )


def _has_rendered_security(security: Object, name: str) -> bool:
    capabilities = _get_object(security, "capabilities")
    may_add = [each.value for each in Capability] if name == CONTAINER else []
    added = capabilities.get("add", [])
    return (
        security.keys() <= RIGHTS_FIELDS
        and security.get("allowPrivilegeEscalation") is False
        and security.get("readOnlyRootFilesystem") is True
        and capabilities.get("drop") == ["ALL"]
        and isinstance(added, list)
        and all(each in may_add for each in added)
    )


def _get_object(holder: Object, name: str) -> Object:
    found = holder.get(name)
    return found if isinstance(found, Mapping) else {}


def _get_objects(holder: Object, name: str) -> list[Object]:
    found = holder.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
