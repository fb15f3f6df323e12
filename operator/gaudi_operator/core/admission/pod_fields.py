"""The pod template fields that this operator can render, and the permitted security contexts.

Any user with permission to write ControllerRevisions can store a pod template. Therefore the operator refuses stored
templates with fields or security contexts that core/rendering never writes. Fields that the API server adds to stored
workloads are permitted, because the operator may read a revision back from a workload.

The chart applies the same rules to the operator's account (charts/gaudi-operator/templates/operator-policy.yaml).
"""

from collections.abc import Iterator, Mapping
from re import fullmatch
from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import Capability
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
    host_volume_names = list[str]()
    for volume in spec.get("volumes", ()):
        yield from _unknown_fields("spec.volumes", volume, VOLUME_FIELDS)
        for source in _get_objects(_get_object(volume, "projected"), "sources"):
            yield from _unknown_fields("spec.volumes.projected", source, PROJECTED_FIELDS)
        if "hostPath" in volume:
            host_volume_names.append(volume["name"])
        # If `hostPath.type` is set, the kubelet may create the folder on the node.
        if _get_object(volume, "hostPath").get("type"):
            yield "spec.volumes.hostPath.type"
    for field in ("containers", "initContainers"):
        for container in spec.get(field, ()):
            yield from _unrendered_container_fields(f"spec.{field}", container, host_volume_names)


def _unrendered_container_fields(path: str, container: Object, host_volume_names: list[str]) -> Iterator[str]:
    yield from _unknown_fields(path, container, CONTAINER_FIELDS)
    if not _has_rendered_security(_get_object(container, "securityContext"), container["name"]):
        yield f"{path}.securityContext"
    for port in _get_objects(container, "ports"):
        yield from _unknown_fields(f"{path}.ports", port, PORT_FIELDS)
    for name in ("livenessProbe", "readinessProbe"):
        yield from _unknown_fields(f"{path}.{name}", _get_object(container, name), PROBE_FIELDS)
        # With `host`, a pod could make the kubelet send requests to any host that the node can reach.
        if "host" in _get_object(_get_object(container, name), "httpGet"):
            yield f"{path}.{name}.httpGet.host"
    hook = _get_object(container, "lifecycle")
    yield from _unknown_fields(f"{path}.lifecycle", hook, frozenset({"preStop"}))
    yield from _unknown_fields(f"{path}.lifecycle.preStop", _get_object(hook, "preStop"), frozenset({"exec"}))
    for mount in _get_objects(container, "volumeMounts"):
        yield from _unknown_fields(f"{path}.volumeMounts", mount, MOUNT_FIELDS)
        if mount.get("name") in host_volume_names and mount.get("readOnly") is not True:
            yield f"{path}.volumeMounts.readOnly"
    for section in ("limits", "requests"):
        for name, quantity in _get_object(_get_object(container, "resources"), section).items():
            if is_device(name) and parse_device_count(quantity) is None:
                yield f"{path}.resources.{section}"


def is_device(resource: str) -> bool:
    """Return True if a resource name in a pod template is the name of a device, such as a card.

    Only the names of devices contain a domain.
    """
    return "/" in resource


def parse_device_count(quantity: object) -> int | None:
    """Return the number of devices in a resource field of a pod template, or None if it is not a valid number."""
    number = parse_int32(str(quantity))
    return None if number is None or number < 0 else number


def _unknown_fields(path: str, parent: Object, known_fields: frozenset[str]) -> Iterator[str]:
    # Users choose the names of unknown fields. Condition messages repeat only names that consist of letters.
    unknown_names = (name if fullmatch("[A-Za-z]{1,64}", name) else "?" for name in parent if name not in known_fields)
    return (f"{path}.{name}" for name in unknown_names)


def _is_unprivileged(security: Object) -> bool:
    ids = [security[name] for name in ("fsGroup", "runAsGroup", "runAsUser") if name in security]
    groups = security.get("supplementalGroups", [])
    return (
        security.keys() <= POD_SECURITY_FIELDS
        and security.get("runAsNonRoot") is True
        and security.get("seccompProfile") == {"type": "RuntimeDefault"}
        and all(isinstance(number, int) and number > 0 for number in (*ids, *groups))
    )


def _has_rendered_security(security: Object, container_name: str) -> bool:
    capabilities = _get_object(security, "capabilities")
    allowed_capabilities = [capability.value for capability in Capability] if container_name == CONTAINER else []
    added_capabilities = capabilities.get("add", [])
    return (
        security.keys() <= RIGHTS_FIELDS
        and security.get("allowPrivilegeEscalation") is False
        and security.get("readOnlyRootFilesystem") is True
        and capabilities.get("drop") == ["ALL"]
        and isinstance(added_capabilities, list)
        and all(capability in allowed_capabilities for capability in added_capabilities)
    )


def _get_object(parent: Object, name: str) -> Object:
    value = parent.get(name)
    return value if isinstance(value, Mapping) else {}


def _get_objects(parent: Object, name: str) -> list[Object]:
    value = parent.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
