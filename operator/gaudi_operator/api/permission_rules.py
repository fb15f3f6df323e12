"""The settings of pods that a class must allow, as rules in CEL for warnings (docs/how-to/pods.md).

The operator checks the same settings in the rendered pod (core/admission/pod_policy.py).
"""

from gaudi_operator.api.class_rules import SPEC, LimitRule, cel_list_of_fields, container_env_expressions
from gaudi_operator.api.v1alpha1.resource import GROUP

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

SYSTEM_PRIORITY = "system-"
CONTROL_PLANE = frozenset(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd"))
PLACING = frozenset({"In", "Exists"})
"""Operators of a node affinity that place pods on the nodes with a label."""

UNSAFE_VARIABLES = ("LD_", "PYTHON", "HABANA_VISIBLE_")
"""Beginnings of variables that load code into a process or give it uncounted cards.

Intel's container runtime reads each variable that begins with HABANA_VISIBLE_DEVICES.
"""

CARDS_VARIABLE, NO_CARDS = "HABANA_VISIBLE_DEVICES", "none"
"""The variable that selects cards, and the value that hides all of them, which needs no permission."""

CONTROLS_POD = "controls how the pod runs or connects"
EVICTS = "is reserved for the cluster, whose components it could evict"
ALLOWS_CONTROL_PLANE = "allows nodes of the control plane"
LOADS_CODE = "loads code or selects cards"


def _any_of_regex(texts: tuple[str, ...]) -> str:
    """Return a regular expression that matches any of the texts."""
    return f"({'|'.join(text.replace('.', '[.]') for text in texts)})"


_ROLES = f"[{', '.join(repr(role) for role in sorted(CONTROL_PLANE))}]"
_AFFINITY = f"{SPEC}.?pod.?affinity.?nodeAffinity"
_PLACES = (
    "?matchExpressions.orValue([]).exists(e, e.key == k &&"
    f" e.operator in [{', '.join(repr(operator) for operator in sorted(PLACING))}])"
)
_VARIABLES = " + ".join(
    container_env_expressions(
        f"filter(e, e.name.matches('^{_any_of_regex(UNSAFE_VARIABLES)}') &&"
        f" !(e.name == '{CARDS_VARIABLE}' && e.?value.orValue('') == '{NO_CARDS}')).map(e, e.name)"
    )
)
# Outside a trial, these checks are not needed: the lists of the class already refuse every value that they do not
# contain (class_rules.py).
_LISTED = "has(LIMIT) && (!variables.trial || {})"

PERMISSIONS = (
    LimitRule(
        "annotationPrefixes",
        "spec.pod.annotations ",
        f"{SPEC}.?pod.?annotations.orValue({{}}).map(k, k).filter(k, !k.startsWith('{GROUP}/') &&"
        f" (k.split('/')[0].matches('(^|[.]){_any_of_regex(FOREIGN_DOMAINS)}$') || "
        f"k.matches('^{_any_of_regex(FOREIGN_STARTS)}')))",
        _LISTED.format("LIMIT.exists(p, x.startsWith(p))"),
        problem=f"' {CONTROLS_POD}'",
    ),
    LimitRule(
        "priorityClasses",
        "spec.pod.priorityClassName ",
        f"({cel_list_of_fields('pod.priorityClassName')}).filter(k, k.startsWith('{SYSTEM_PRIORITY}'))",
        _LISTED.format("x in LIMIT"),
        problem=f"' {EVICTS}'",
    ),
    LimitRule(
        "tolerations",
        "spec.pod.tolerations ",
        f"{SPEC}.?pod.?tolerations.orValue([]).map(t, t.?key.orValue('')).filter(k, k == '' || k in {_ROLES})"
        ".map(k, k == '' ? 'without a key' : k)",
        _LISTED.format("x in LIMIT"),
        problem=f"' {ALLOWS_CONTROL_PLANE}'",
    ),
    LimitRule(
        "tolerations",
        "spec.pod.nodeSelector ",
        f"{SPEC}.?pod.?nodeSelector.orValue({{}}).map(k, k).filter(k, k in {_ROLES})",
        "has(LIMIT) && x in LIMIT",
        problem=f"' {ALLOWS_CONTROL_PLANE}'",
    ),
    LimitRule(
        "tolerations",
        "spec.pod.affinity ",
        f"{_ROLES}.filter(k, {_AFFINITY}.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])"
        f".exists(t, t.{_PLACES}) || {_AFFINITY}.?preferredDuringSchedulingIgnoredDuringExecution.orValue([])"
        f".exists(p, p.preference.{_PLACES}))",
        "has(LIMIT) && x in LIMIT",
        problem=f"' {ALLOWS_CONTROL_PLANE}'",
    ),
    LimitRule(
        "environmentVariables",
        "variable ",
        _VARIABLES,
        _LISTED.format("LIMIT.exists(p, p.endsWith('*') ? x.startsWith(p.substring(0, p.size() - 1)) : x == p)"),
        problem=f"' {LOADS_CODE}'",
    ),
)
"""Rules whose values need permission. They are allowed if the class lists them."""
