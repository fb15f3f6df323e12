"""The rules for the revisions and children of a resource: its class, and folders of nodes.

The rules apply to every revision that is about to run: new, rolled back to, or scaled up. They are checked on what the
operator renders (docs/how-to/classes.md). The API server checks the fields of the pods
(charts/gaudi-operator/templates/operator-policy.yaml).

Each row of LIMITS and PERMISSIONS is one rule: a limit of the class, the values that the limit applies to, and the
comparison. The values come from the inputs and pod templates of a revision, and from the rendered Service,
NetworkPolicy and PVC. They therefore include the defaults of the class and of the installation.

A setting of PERMISSIONS affects more than the namespace of its resource. Such a setting is refused unless a class
allows it, even without a class and under `enforcement: Warn` (docs/how-to/pods.md, What a class must allow).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from posixpath import normpath
from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.api.v1alpha1.pods.pod import DEFAULT_USER
from gaudi_operator.core.admission import limited_values as values
from gaudi_operator.core.admission.limited_values import LimitedObjects, LimitedValue, limited_host_paths
from gaudi_operator.core.classes import FORBIDDEN, NO_CLASS, ResolvedClass
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationHostPath
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.rendering.metadata import Object
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.rollout_step import resolve_rollout_step_limit
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class PolicyViolation:
    """A value that a class does not allow. `kind` is the kind of the child with this value, or None for pods."""

    message: str
    kind: str | None = None


def policy_limit_violations(rendered: LimitedObjects, limits: ClassLimits) -> Iterator[PolicyViolation]:
    """Yield the values that exceed a limit which the class sets."""
    return _violations(LIMITS, rendered, limits)


def find_policy_violations(rendered: LimitedObjects, platform: ResolvedClass) -> Iterator[PolicyViolation]:
    """Yield the values that the operator refuses: those beyond enforced limits, and those without a permission."""
    yield from policy_limit_violations(rendered, platform.enforced_limits)
    yield from _violations(PERMISSIONS, rendered, platform.limits)


def _find_problem(rendered: LimitedObjects, platform: ResolvedClass) -> Problem | None:
    """Return the problem of the first value that the operator refuses, or None."""
    violation = next(find_policy_violations(rendered, platform), None)
    if violation is None:
        return None
    if platform.spec is None:
        return Problem("NeedsClass", f"{violation.message}. Remove the setting, or use a class that allows it.")
    return Problem(
        FORBIDDEN,
        f"{violation.message}, a limit of class {platform.name}. Change the field, or use another class.",
    )


Comparison = Callable[[Any, Any], tuple[str, str] | None]
"""A function of (limit, value) that returns (fault, allowed values), or None if the value is allowed."""


@dataclass(frozen=True)
class _Row:
    """One rule: the name of a limit, the values that it applies to, the comparison, and the kind of the child."""

    limit: str
    find_values: Callable[[LimitedObjects], Iterable[LimitedValue]]
    compare: Comparison
    kind: str | None = None


def _violations(rows: Iterable[_Row], rendered: LimitedObjects, limits: ClassLimits) -> Iterator[PolicyViolation]:
    for row in rows:
        limit, name = getattr(limits, row.limit), ClassLimits.model_fields[row.limit].alias
        # The templates of a leader and its workers have the same values. Report each value once.
        for value in {value.field: value for value in row.find_values(rendered)}.values():
            if fault := row.compare(limit, value.value):
                yield PolicyViolation(f"{value.field} {fault[0]} (limits.{name}{fault[1]})", row.kind)


def _one_of(matches: Callable[[Any, Any], bool]) -> Comparison:
    """Return a comparison that allows values which match an entry of a list. Without a list, all are allowed."""

    def compare(allowed: Sequence[Any] | None, value: Any) -> tuple[str, str] | None:
        if allowed is None or any(matches(value, entry) for entry in allowed):
            return None
        return "is not an allowed value", f": {', '.join(allowed) or 'none'}"

    return compare


def _listed(matches: Callable[[Any, Any], bool], effect: str) -> Comparison:
    """Return a comparison that allows only values which match an entry of a list. `effect` says why."""
    return lambda allowed, value: None if any(matches(value, entry) for entry in allowed or ()) else (effect, "")


def _at_most(limit: Any, value: Any) -> tuple[str, str] | None:
    within = limit is None or parse_quantity(str(value)) <= parse_quantity(str(limit))
    return None if within else (f"is above {limit}", "")


def _allowed(effect: str) -> Comparison:
    """Return a comparison that allows values only if the limit is true."""
    return lambda allowed, _: None if allowed else (effect, "")


def _contains_labels(required: Mapping[str, str], labels: Mapping[str, str]) -> tuple[str, str] | None:
    missing = (f'{key}: "{value}"' for key, value in required.items() if labels.get(key) != value)
    fault = next(missing, None)
    return (f"must contain {fault}", "") if fault else None


def matches_policy_image_prefix(image: str, prefix: str) -> bool:
    """Return True if an image name begins with `prefix`, and the prefix ends between two parts of the name."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix[-1] in "/:@" or rest[0] in "/:@")


def matches_policy_path_prefix(path: str, prefix: str) -> bool:
    """Return True if a folder of a pod is `prefix` or inside it. A path with `..` always returns False."""
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    # POSIX gives two leading slashes a special meaning, so normpath keeps them. Reduce them to one slash.
    folder, parent = ("/" + normpath(raw_path).lstrip("/") for raw_path in (path, prefix))
    return folder == parent or folder.startswith(f"{parent.rstrip('/')}/")


def _matches_name_pattern(variable: str, pattern: str) -> bool:
    """Return True if a variable's name equals `pattern`. A `*` at the end of the pattern matches any rest."""
    return variable.startswith(pattern[:-1]) if pattern.endswith("*") else variable == pattern


LIMITS = (
    _Row("images", values.limited_images, _one_of(matches_policy_image_prefix)),
    _Row("host_paths", values.limited_host_paths, _one_of(matches_policy_path_prefix)),
    _Row("priority_classes", values.limited_names("priorityClassName"), _one_of(eq)),
    _Row("runtime_classes", values.limited_names("runtimeClassName"), _one_of(eq)),
    _Row("service_accounts", values.limited_service_accounts, _one_of(eq)),
    _Row("node_selector", values.limited_node_selectors, _contains_labels),
    _Row("tolerations", values.limited_toleration_keys, _one_of(eq)),
    _Row("annotation_prefixes", values.limited_annotations, _one_of(str.startswith)),
    _Row("environment_variables", values.limited_variables, _one_of(_matches_name_pattern)),
    _Row("extra_arguments", values.limited_arguments, _one_of(eq)),
    _Row("trust_remote_code", values.limited_remote_code, _allowed("is not allowed")),
    _Row("model_sources", values.limited_model_sources, _one_of(eq)),
    _Row("api_key_required", values.limited_api_key, lambda required, _: ("must be set", "") if required else None),
    _Row("max_stall_timeout_seconds", values.limited_stall_timeouts, _at_most),
    _Row("max_replicas", values.limited_replicas, _at_most),
    _Row("max_cards", values.limited_cards, _at_most),
    _Row(
        "max_cards",
        values.limited_claim_templates,
        lambda limit, _: None if limit is None else ("may request any number of cards", ""),
    ),
    _Row("service_types", values.limited_service_types, _one_of(eq), "Service"),
    _Row("service_annotation_prefixes", values.limited_service_annotations, _one_of(str.startswith), "Service"),
    _Row("max_recipe_cache_size", values.limited_recipe_sizes, _at_most, "PersistentVolumeClaim"),
    _Row("max_surge", values.limited_surges, _at_most),
)

PERMISSIONS = (
    _Row(
        "annotation_prefixes",
        values.limited_controlling_annotations,
        _listed(str.startswith, "controls how the pod runs or connects"),
    ),
    _Row(
        "priority_classes",
        values.limited_system_priorities,
        _listed(eq, "is reserved for the cluster, whose components it could evict"),
    ),
    _Row("tolerations", values.limited_control_plane_keys, _listed(eq, "allows nodes of the control plane")),
    _Row(
        "environment_variables",
        values.limited_unsafe_variables,
        _listed(_matches_name_pattern, "loads code or selects cards"),
    ),
    _Row(
        "allow_all_clients",
        values.limited_open_access,
        _allowed("lets every namespace reach the model port"),
        "NetworkPolicy",
    ),
)


@dataclass(frozen=True)
class PodPolicy:
    """The rules for a resource, which depend on its namespace, the installation and the class."""

    inference: Inference
    host_paths: tuple[InstallationHostPath, ...]
    platform: ResolvedClass = NO_CLASS

    def find_violation(self, revision: Revision, children: Mapping[str, Object] | None = None) -> Problem | None:
        """Return the first violation of a revision and of the children of the spec, or None if they are allowed."""
        if self.platform.problem:
            return self.platform.problem
        rendered = render_for_policy(self.inference, revision, children)
        return next(self._host_path_problems(rendered), None) or _find_problem(rendered, self.platform)

    def _host_path_problems(self, rendered: LimitedObjects) -> Iterator[Problem]:
        namespace = self.inference.identity.namespace
        entries = [entry for entry in self.host_paths if not entry.namespaces or namespace in entry.namespaces]
        mounts, allowed_groups = list(limited_host_paths(rendered)), {DEFAULT_USER}
        for mount in mounts:
            matching_entries = [entry for entry in entries if matches_policy_path_prefix(mount.value, entry.prefix)]
            if not matching_entries:
                yield Problem(
                    "HostPathNotAllowed",
                    f"{mount.field} is not allowed by this installation in namespace {namespace}. Use "
                    "persistentVolumeClaim or ociImage, or install the operator with an entry for this path in "
                    "allowHostPath.",
                )
            allowed_groups |= {group for entry in matching_entries for group in entry.groups}
        security = (rendered.revision.template.get("spec") or {}).get("securityContext") or {}
        if mounts and (fault := _group_fault(security, allowed_groups)):
            yield Problem(
                "HostPathNotAllowed", f"spec.pod: {fault} in a pod that mounts a folder of the node. {_FIXED}."
            )


def render_for_policy(
    inference: Inference, revision: Revision, children: Mapping[str, Object] | None = None
) -> LimitedObjects:
    """Return what a class may limit, with the largest numbers of replicas and pods of a surge that the spec requests.

    `children` are those of the spec. Without them, only the revision is judged.
    """
    spec = inference.spec
    replicas = max(spec.replicas, spec.autoscaling.max_replicas if spec.autoscaling else 0)
    surge = resolve_rollout_step_limit(spec.rollout.max_surge, replicas, round_up=True)
    return LimitedObjects(revision, inference.identity.name, replicas, surge, children)


_FIXED = (
    f"Such pods run with group {DEFAULT_USER}, so that they cannot read the files of other users. Remove the "
    "setting, or install the operator with the group in allowHostPath"
)


def _group_fault(security: Mapping[str, Any], allowed_groups: set[int]) -> str | None:
    if "runAsGroup" not in security:
        return "userFromCluster of the class is not allowed"
    for group in (security["runAsGroup"], security.get("fsGroup")):
        if group is not None and group not in allowed_groups:
            return f"group {group} is not allowed"
    supplemental = security.get("supplementalGroups") or ()
    forbidden_group = next((group for group in supplemental if group not in allowed_groups), None)
    return None if forbidden_group is None else f"supplementalGroups {forbidden_group} is not allowed"
