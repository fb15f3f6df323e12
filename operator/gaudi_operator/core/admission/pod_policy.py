"""The pod policy: rules for the rendered pod template. They therefore cover every field of a spec.

The rules apply to the template of every revision that is about to run: new, stored, rolled back to, or scaled up. A
template that the operator cannot have rendered is refused as a whole. Other violations name a field of the spec.

Settings that affect more than the namespace need permission from a class: annotations for node agents, sandboxes and
networks, system priorities, control plane nodes, and variables that load code or select cards (docs/how-to/pods.md,
What a class must allow).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from gaudi_operator.api.permission_rules import (
    ALLOWS_CONTROL_PLANE,
    CONTROL_PLANE,
    CONTROLS_POD,
    EVICTS,
    FOREIGN_DOMAINS,
    FOREIGN_STARTS,
    LOADS_CODE,
    PLACING,
    SYSTEM_PRIORITY,
    UNSAFE_VARIABLES,
)
from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.api.v1alpha1.pods.pod import DEFAULT_USER
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.admission.pod_fields import unrendered_field
from gaudi_operator.core.admission.pod_view import PodSecurityContext, PodTemplateView, is_path_inside
from gaudi_operator.core.admission.revision_limits import matches_name_pattern, revision_limit_violations
from gaudi_operator.core.classes import FORBIDDEN, NO_CLASS, ResolvedClass
from gaudi_operator.core.installation import AllowedHostPath
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class PodPolicy:
    """The rules for the pods of a resource, which depend on its namespace, the installation and the class.

    `account` is the service account that the operator creates for the resource. `spec` contains the number of replicas.
    """

    namespace: str
    host_paths: tuple[AllowedHostPath, ...]
    platform: ResolvedClass = NO_CLASS
    account: str = ""
    spec: GaudiInferenceSpec | None = None

    def find_violation(self, revision: Revision) -> Problem | None:
        """Return the first violation of a revision's pods, or None if they are allowed."""
        if self.platform.problem:
            return self.platform.problem
        views = list[PodTemplateView]()
        for template in revision.templates:
            try:
                views.append(PodTemplateView.model_validate(template))
            except ValidationError as error:
                path = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
                return Problem(REFUSED_TEMPLATE, f"its pod template has {path} with a value of a wrong type. {_CHANGE}")
            if field := unrendered_field(template):
                return Problem(
                    REFUSED_TEMPLATE,
                    f"its pod template has {field} with a value that this operator does not write. {_CHANGE}",
                )
        return next(self._violations(revision, views), None)

    def _violations(self, revision: Revision, views: list[PodTemplateView]) -> Iterator[Problem]:
        class_name, limits = self.platform.name, self.platform.limits
        for view in views:
            yield from _host_path_violations(view, self)
        for spec_field, reason in revision_limit_violations(self.spec, revision, views, limits, self.account):
            yield Problem(
                FORBIDDEN,
                f"{spec_field} {reason}, a limit of class {class_name}. Change the field, or use another class.",
            )
        for view in views:
            for spec_field, reason in _unpermitted_settings(view, self.platform.permissions):
                if self.platform.spec:
                    advice = f"class {class_name} does not allow this. Remove the setting, or use another class"
                    yield Problem(FORBIDDEN, f"{spec_field} {reason}, but {advice}.")
                else:
                    yield Problem(
                        "NeedsClass", f"{spec_field} {reason}. Remove the setting, or use a class that allows it."
                    )


REFUSED_TEMPLATE = "PodTemplateNotAllowed"
_CHANGE = "Change the field in spec.pod, or delete the ControllerRevision, so that the operator renders a new template."


def _host_path_violations(view: PodTemplateView, policy: PodPolicy) -> Iterator[Problem]:
    entries = [entry for entry in policy.host_paths if not entry.namespaces or policy.namespace in entry.namespaces]
    mounts = list(view.host_paths)
    allowed_groups = {DEFAULT_USER}
    for spec_field, path in mounts:
        matching_entries = [entry for entry in entries if is_path_inside(path, entry.prefix)]
        if not matching_entries:
            yield Problem(
                "HostPathNotAllowed",
                f"{spec_field} {path} is not allowed by this installation in namespace {policy.namespace}. Use "
                "persistentVolumeClaim or ociImage, or install the operator with an entry for this path in "
                "allowHostPath.",
            )
        allowed_groups |= {group for entry in matching_entries for group in entry.groups}
    if mounts and (fault := _group_fault(view.spec.security_context, allowed_groups)):
        yield Problem("HostPathNotAllowed", f"spec.pod: {fault} in a pod that mounts a folder of the node. {_FIXED}.")


_FIXED = (
    f"Such pods run with group {DEFAULT_USER}, so that they cannot read the files of other users. Remove the "
    "setting, or install the operator with the group in allowHostPath"
)


def _group_fault(security: PodSecurityContext, allowed_groups: set[int]) -> str | None:
    if security.run_as_group is None:
        return "userFromCluster of the class is not allowed"
    for group in (security.run_as_group, security.fs_group):
        if group is not None and group not in allowed_groups:
            return f"group {group} is not allowed"
    forbidden_group = next((group for group in security.supplemental_groups if group not in allowed_groups), None)
    return None if forbidden_group is None else f"supplementalGroups {forbidden_group} is not allowed"


def is_controlling_annotation(annotation: str) -> bool:
    """Return True if node agents, sandboxes or networks read this pod annotation."""
    domain = annotation.partition("/")[0]
    is_foreign = any(domain == parent or domain.endswith(f".{parent}") for parent in FOREIGN_DOMAINS)
    return is_foreign or annotation.startswith(FOREIGN_STARTS)


def is_unsafe_variable(name: str) -> bool:
    """Return True if an environment variable can load code into a process or give it cards that are not counted."""
    return name.startswith(UNSAFE_VARIABLES)


def _unpermitted_settings(view: PodTemplateView, limits: ClassLimits) -> Iterator[tuple[str, str]]:
    """Yield (field of the spec, reason) of settings that need permission from a class but are not in its lists."""
    spec = view.spec
    allowed_prefixes = limits.annotation_prefixes or ()
    for annotation in view.user_annotations:
        if is_controlling_annotation(annotation) and not annotation.startswith(allowed_prefixes):
            yield f"spec.pod.annotations {annotation}", CONTROLS_POD
    priority = spec.priority_class_name
    if priority.startswith(SYSTEM_PRIORITY) and priority not in (limits.priority_classes or ()):
        yield f"spec.pod.priorityClassName {priority}", EVICTS
    control_plane_keys = CONTROL_PLANE - set(limits.tolerations or ())
    for toleration in spec.tolerations:
        if not toleration.key:
            yield "spec.pod.tolerations without a key", ALLOWS_CONTROL_PLANE
        elif toleration.key in control_plane_keys:
            yield f"spec.pod.tolerations {toleration.key}", ALLOWS_CONTROL_PLANE
    for label in sorted(spec.node_selector.keys() & control_plane_keys):
        yield f"spec.pod.nodeSelector {label}", ALLOWS_CONTROL_PLANE
    for requirement in spec.affinity.node_affinity.requirements:
        if requirement.key in control_plane_keys and requirement.operator in PLACING:
            yield f"spec.pod.affinity {requirement.key}", ALLOWS_CONTROL_PLANE
    for spec_field, name in view.variables:
        is_listed = any(matches_name_pattern(name, pattern) for pattern in limits.environment_variables or ())
        if is_unsafe_variable(name) and not is_listed:
            yield f"{spec_field} {name}", LOADS_CODE
