"""The rules for the revisions and children of a resource: folders of nodes that the installation allows, and limits.

The rules apply to every revision that is about to run: new, rolled back to, or scaled up. The API server checks
the fields of the pods (charts/gaudi-operator/templates/operator-policy.yaml).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gaudi_operator.api.v1alpha1.pods.pod import DEFAULT_USER
from gaudi_operator.core.admission.limited_values import Rendered, host_paths
from gaudi_operator.core.admission.limits import find_problem, is_path_inside
from gaudi_operator.core.classes import NO_CLASS, ResolvedClass
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import AllowedHostPath
from gaudi_operator.core.rendering.metadata import Object
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.scale_step import resolve_pod_count
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class PodPolicy:
    """The rules for a resource, which depend on its namespace, the installation and the class."""

    inference: Inference
    host_paths: tuple[AllowedHostPath, ...]
    platform: ResolvedClass = NO_CLASS

    def find_violation(self, revision: Revision, children: Mapping[str, Object] | None = None) -> Problem | None:
        """Return the first violation of a revision and of the children of the spec, or None if they are allowed."""
        if self.platform.problem:
            return self.platform.problem
        rendered = render_limited(self.inference, revision, children)
        return next(self._host_path_problems(rendered), None) or find_problem(rendered, self.platform)

    def _host_path_problems(self, rendered: Rendered) -> Iterator[Problem]:
        namespace = self.inference.identity.namespace
        entries = [entry for entry in self.host_paths if not entry.namespaces or namespace in entry.namespaces]
        mounts, allowed_groups = list(host_paths(rendered)), {DEFAULT_USER}
        for mount in mounts:
            matching_entries = [entry for entry in entries if is_path_inside(mount.value, entry.prefix)]
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


def render_limited(inference: Inference, revision: Revision, children: Mapping[str, Object] | None = None) -> Rendered:
    """Return what a class may limit, with the largest numbers of replicas and pods of a surge that the spec requests.

    `children` are those of the spec. Without them, only the revision is judged.
    """
    spec = inference.spec
    replicas = max(spec.replicas, spec.autoscaling.max_replicas if spec.autoscaling else 0)
    surge = resolve_pod_count(spec.rollout.max_surge, replicas, round_up=True)
    return Rendered(revision, inference.identity.name, replicas, surge, children)


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
