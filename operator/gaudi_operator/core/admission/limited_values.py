"""The values that a GaudiInferenceClass limits, read from what the operator renders for a resource.

Each function yields the values of one limit, with the field of the spec that a message names (limits.py). The operator
does not validate blocks: a value of a wrong type counts as missing, because the API server refuses it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX, ServiceType
from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.names import CARDS_VARIABLE, NO_CARDS
from gaudi_operator.core.nested_objects import read_nested_object, read_nested_objects, read_text
from gaudi_operator.core.rendering.metadata import Object
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.ports import API_KEY_VARIABLE, MODEL_PORT_NAME


@dataclass(frozen=True)
class LimitedObjects:
    """The rendered objects and counts of a resource, which a class may limit.

    `account` is the service account that the operator creates. `replicas` and `surge` are the numbers of the spec.
    `children` contains the Service, the NetworkPolicy and the recipe PVC that the spec requests, by kind. It is None if
    only the revision is judged.
    """

    revision: Revision
    account: str = ""
    replicas: int = 0
    surge: int = 0
    children: Mapping[str, Object] | None = None


@dataclass(frozen=True)
class LimitedValue:
    """A value to compare with a limit. `field` names the field of the spec and the value in messages."""

    field: str
    value: Any


def _pod_specs(rendered: LimitedObjects) -> Iterator[Mapping[str, Any]]:
    return (read_nested_object(template, "spec") for template in rendered.revision.templates)


def _side_containers(rendered: LimitedObjects) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (field of the spec, container) of each init container and sidecar."""
    for container in (each for spec in _pod_specs(rendered) for each in read_nested_objects(spec, "initContainers")):
        field = "sidecars" if container.get("restartPolicy") == "Always" else "initContainers"
        yield f"spec.pod.{field} {read_text(container, 'name')}:", container


def _volumes(rendered: LimitedObjects, kind: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield (field of the spec with the source, value of `key`) of each volume of this kind."""
    for volume in (each for spec in _pod_specs(rendered) for each in read_nested_objects(spec, "volumes")):
        if volume.get(kind) is not None:
            yield _source_field(read_text(volume, "name"), kind), read_text(volume, kind, key)


_MODEL_FIELDS = {"model": "spec.model.source", "seed-recipes": "spec.recipeCache"}


def _source_field(volume: str, kind: str) -> str:
    field = "spec.model.lora.adapters.source" if volume.startswith("adapter-") else _MODEL_FIELDS.get(volume)
    return f"{field}.{_MODEL_SOURCES[kind]}" if field else f"spec.pod.volumes {volume}: {kind}"


_MODEL_SOURCES = {"hostPath": "hostPath", "image": "ociImage"}
"""The name of a kind of volume in spec.model and spec.recipeCache."""


def limited_images(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the images of all containers and volumes."""
    containers = (container for spec in _pod_specs(rendered) for container in read_nested_objects(spec, "containers"))
    for image in (read_text(container, "image") for container in containers):
        yield LimitedValue(f"spec.server.image {image}", image)
    for field, container in _side_containers(rendered):
        image = read_text(container, "image")
        yield LimitedValue(f"{field} image {image}", image)
    for field, image in _volumes(rendered, "image", "reference"):
        yield LimitedValue(f"{field} {image}", image)


def limited_host_paths(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the folders of the node that the pods mount."""
    return (LimitedValue(f"{field} {path}", path) for field, path in _volumes(rendered, "hostPath", "path"))


def limited_names(field: str) -> Callable[[LimitedObjects], Iterator[LimitedValue]]:
    """Return a function that yields the value of a field of the pods, if it is set."""

    def find(rendered: LimitedObjects) -> Iterator[LimitedValue]:
        names = (spec.get(field) for spec in _pod_specs(rendered))
        return (LimitedValue(f"spec.pod.{field} {name}", name) for name in names if name)

    return find


def limited_service_accounts(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the service accounts of the pods, without the account that the operator creates."""
    return (value for value in limited_names("serviceAccountName")(rendered) if value.value != rendered.account)


def limited_toleration_keys(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the keys of the taints that the pods tolerate."""
    tolerations = (toleration for spec in _pod_specs(rendered) for toleration in spec.get("tolerations") or ())
    for key in (toleration.get("key") for toleration in tolerations):
        yield LimitedValue(f"spec.pod.tolerations {key or 'without a key'}", key)


def limited_node_selectors(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the node selectors of the pods."""
    return (LimitedValue("spec.pod.nodeSelector", spec.get("nodeSelector") or {}) for spec in _pod_specs(rendered))


def limited_annotations(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the keys of the annotations that users set."""
    metadata = (template.get("metadata") or {} for template in rendered.revision.templates)
    keys = (key for each in metadata for key in each.get("annotations") or {})
    return (LimitedValue(f"spec.pod.annotations {key}", key) for key in keys if not key.startswith(f"{GROUP}/"))


def limited_variables(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the variables that users set. The operator itself sets the variable that hides cards from a container."""
    for variable in _engine(rendered).get("env") or ():
        yield LimitedValue(f"spec.engine.env {variable['name']}", variable["name"])
    for field, container in _side_containers(rendered):
        for variable in read_nested_objects(container, "env"):
            name = read_text(variable, "name")
            if (name, variable.get("value")) != (CARDS_VARIABLE, NO_CARDS):
                yield LimitedValue(f"{field} env {name}", name)


def _engine(rendered: LimitedObjects) -> Mapping[str, Any]:
    return rendered.revision.inputs.get("engine") or {}


def limited_arguments(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the names of the extra arguments of the engine."""
    arguments = (argument.partition("=")[0] for argument in _engine(rendered).get("extraArgs") or ())
    return (LimitedValue(f"spec.engine.extraArgs {name}", name) for name in arguments if name.startswith("--"))


TRUST_REMOTE_CODE = "--trust-remote-code"
CODE_SUFFIX = "-parser-plugin"
CODE_FILES = frozenset({"GC_KERNEL_PATH", "HABANA_PLUGINS_LIB_PATH", "HABANA_SCAL_BIN_PATH"})
"""Settings of the engine that name files of code, which a volume of the pod may contain. So do parser plugins."""


def limited_remote_code(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the settings with which the engine runs code of a checkpoint or of a file."""
    names = [
        *(value.value for value in limited_arguments(rendered)),
        *(each["name"] for each in _engine(rendered).get("env") or ()),
    ]
    for name, value in {**dict.fromkeys(names, ""), **(_engine(rendered).get("settings") or {})}.items():
        trusts = name == TRUST_REMOTE_CODE and str(value).lower() != "false"
        if trusts or name in CODE_FILES or name.endswith(CODE_SUFFIX):
            yield LimitedValue(f"spec.engine.settings {name}", name)


def limited_model_sources(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the kinds of the sources of the model and its adapters."""
    model = rendered.revision.inputs.get("model") or {}
    adapters = (("lora.adapters.source", adapter) for adapter in (model.get("lora") or {}).get("adapters") or ())
    for field, parent in (("source", model), *adapters):
        for kind in parent.get("source") or {}:
            yield LimitedValue(f"spec.model.{field}.{kind}", f"{kind[0].upper()}{kind[1:]}")


def limited_api_key(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the field of the API key if a runtime container has no API key."""
    containers = (container for spec in _pod_specs(rendered) for container in read_nested_objects(spec, "containers"))
    if not any(
        map(_is_set_key, (variable for container in containers for variable in read_nested_objects(container, "env")))
    ):
        yield LimitedValue("spec.server.apiKeySecretRef", None)


def _is_set_key(variable: Mapping[str, Any]) -> bool:
    # Without an optional Secret, the kubelet would set no variable, and the server would require no key.
    secret = read_nested_object(variable, "valueFrom", "secretKeyRef")
    return variable.get("name") == API_KEY_VARIABLE and bool(
        variable.get("value") or (secret and not secret.get("optional"))
    )


def limited_stall_timeouts(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the stall timeout in seconds, if it is set."""
    seconds = rendered.revision.stall_timeout_seconds
    if seconds is not None:
        yield LimitedValue(f"spec.warmup.stallTimeoutSeconds {seconds}", seconds)


def limited_replicas(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield one replica if the spec requests any. The operator itself limits further replicas (replica_limit.py)."""
    if rendered.replicas:
        yield LimitedValue("spec.replicas 1", 1)


def limited_cards(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the number of cards of one replica."""
    cards = rendered.revision.cards_per_replica
    if rendered.replicas and cards:
        yield LimitedValue(f"spec.parallelism: a replica needs {cards} cards, which", cards)


def limited_claim_templates(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the ResourceClaimTemplates of the pods."""
    claims = (claim for spec in _pod_specs(rendered) for claim in spec.get("resourceClaims") or ())
    for name in (claim.get("resourceClaimTemplateName") for claim in claims):
        yield LimitedValue(f"spec.accelerator.resourceClaimTemplateName {name}", name)


def _child(rendered: LimitedObjects, kind: str) -> Mapping[str, Any]:
    return (rendered.children or {}).get(kind) or {}


def limited_open_access(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield spec.networkAccess if every namespace can reach the model port."""
    if rendered.children is None:
        return
    policy = _child(rendered, "NetworkPolicy")
    model_rules = (rule for rule in read_nested_objects(policy, "spec", "ingress") if _opens_model_port(rule))
    if not policy or any(not rule.get("from") or any(map(_is_everyone, rule["from"])) for rule in model_rules):
        yield LimitedValue("spec.networkAccess", None)


def _opens_model_port(rule: Mapping[str, Any]) -> bool:
    return any(port["port"] == MODEL_PORT_NAME for port in rule.get("ports") or ())


def _is_everyone(peer: Mapping[str, Any]) -> bool:
    """Return True if a peer matches all namespaces, or an IP range that may contain a whole cluster.

    The API server refuses a peer without any of these fields.
    """
    if peer.get("ipBlock") is not None:
        return _prefix_length(read_text(peer, "ipBlock", "cidr")) < SHORTEST_PREFIX
    if peer.get("namespaceSelector") is None:
        return False
    expressions = read_nested_objects(peer, "namespaceSelector", "matchExpressions")
    selects_names = any(expression.get("operator") == "In" for expression in expressions)
    return not read_nested_object(peer, "namespaceSelector", "matchLabels") and not selects_names


def _prefix_length(cidr: str) -> int:
    """Return the prefix length of an IP range. Return 0 for any other text."""
    try:
        return ip_network(cidr, strict=False).prefixlen
    except ValueError:
        return 0


def limited_service_types(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the type of the Service, unless it is ClusterIP."""
    service_type = (_child(rendered, "Service").get("spec") or {}).get("type", ServiceType.CLUSTER_IP)
    if service_type != ServiceType.CLUSTER_IP:
        yield LimitedValue(f"spec.service.type {service_type}", service_type)


def limited_service_annotations(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the keys of the annotations that users set on the Service."""
    keys = (_child(rendered, "Service").get("metadata") or {}).get("annotations") or {}
    return (LimitedValue(f"spec.service.annotations {key}", key) for key in keys if not key.startswith(f"{GROUP}/"))


def limited_recipe_sizes(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the size of the recipe PVC that the operator creates."""
    if pvc := _child(rendered, "PersistentVolumeClaim"):
        size = pvc["spec"]["resources"]["requests"]["storage"]
        yield LimitedValue(f"spec.recipeCache.size {size}", size)


def limited_surges(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the surge of rollouts in pods."""
    if rendered.children is not None:
        yield LimitedValue(f"spec.rollout.maxSurge {rendered.surge}", rendered.surge)


FOREIGN_DOMAINS = (
    # Kubernetes and its node agents read these annotations for seccomp, AppArmor, bandwidth, eviction and device
    # injection.
    "kubernetes.io",
    "k8s.io",
    # These annotations attach additional networks to a pod.
    "cni.cncf.io",
    "multus-cni.io",
    "projectcalico.org",
    "ovn.org",
    "cilium.io",
)
"""Domains of annotations that nodes, sandboxes or networks evaluate."""

FOREIGN_STARTS = (
    # Sandboxes and container runtimes use these prefixes. They write domains in reverse order.
    "io.katacontainers.",
    "io.kubernetes.",
    "io.containerd.",
    "io.cilium",
    "dev.gvisor.",
    "cni.",
)
"""Beginnings of such annotations."""

CONTROL_PLANE = frozenset(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd"))
PLACING = frozenset({"In", "Exists"})
"""Operators of a node affinity that place pods on the nodes with a label."""

UNSAFE_VARIABLES = ("LD_", "PYTHON", "HABANA_VISIBLE_")
"""Beginnings of variables that load code into a process or give it uncounted cards.

Intel's container runtime reads each variable that begins with HABANA_VISIBLE_DEVICES.
"""


def is_limited_controlling_annotation(annotation: str) -> bool:
    """Return True if node agents, sandboxes or networks read this pod annotation."""
    domain = annotation.partition("/")[0]
    is_foreign = any(domain == parent or domain.endswith(f".{parent}") for parent in FOREIGN_DOMAINS)
    return is_foreign or annotation.startswith(FOREIGN_STARTS)


def limited_controlling_annotations(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the annotations that node agents, sandboxes or networks read."""
    return (value for value in limited_annotations(rendered) if is_limited_controlling_annotation(value.value))


def limited_system_priorities(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the priority classes of the cluster's own components."""
    return (value for value in limited_names("priorityClassName")(rendered) if value.value.startswith("system-"))


def limited_control_plane_keys(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the tolerations, node labels and affinities that allow nodes of the control plane."""
    yield from (value for value in limited_toleration_keys(rendered) if not value.value or value.value in CONTROL_PLANE)
    for spec in _pod_specs(rendered):
        for label in sorted((spec.get("nodeSelector") or {}).keys() & CONTROL_PLANE):
            yield LimitedValue(f"spec.pod.nodeSelector {label}", label)
        for requirement in _node_requirements(read_nested_object(spec, "affinity", "nodeAffinity")):
            key = read_text(requirement, "key")
            if key in CONTROL_PLANE and read_text(requirement, "operator") in PLACING:
                yield LimitedValue(f"spec.pod.affinity {key}", key)


def _node_requirements(affinity: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the label requirements on nodes, both required and preferred."""
    required, preferred = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
    preferences = (read_nested_object(each, "preference") for each in read_nested_objects(affinity, preferred))
    terms = (*read_nested_objects(affinity, required, "nodeSelectorTerms"), *preferences)
    return (requirement for term in terms for requirement in read_nested_objects(term, "matchExpressions"))


def limited_unsafe_variables(rendered: LimitedObjects) -> Iterator[LimitedValue]:
    """Yield the variables that load code or select cards."""
    return (value for value in limited_variables(rendered) if value.value.startswith(UNSAFE_VARIABLES))
