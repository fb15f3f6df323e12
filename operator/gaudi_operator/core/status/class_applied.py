"""The conditions about the class of a resource: ClassApplied and ReplicasLimited (docs/how-to/classes.md)."""

from gaudi_operator.core.admission.limits import limit_violations
from gaudi_operator.core.admission.pod_policy import render_limited
from gaudi_operator.core.children.desired import limited_children
from gaudi_operator.core.classes import fill_class_defaults
from gaudi_operator.core.rollout.replica_limit import describe_excess
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict


def judge_class_applied(state: State) -> Verdict | None:
    """Judge the condition ClassApplied: the revision has the current defaults of its class and meets its limits.

    Limits are reported here only if the class warns. Otherwise the condition PlanAccepted reports them.
    """
    revision = state.rollout.current
    if state.platform.spec is None and (revision is None or revision.class_defaults is None):
        return None
    if state.violation or revision is None:
        return Verdict(UNKNOWN, "PlanNotAccepted", "The class is applied after the condition PlanAccepted is True.")
    if problem := state.forbidden.get(revision.name):
        return Verdict(FALSE, problem.reason, problem.message)
    changed_defaults = _describe_changed_defaults(state, revision)
    if violations := _reported_violations(state, revision):
        refusal = (
            f"Class {state.platform.name} has enforcement: Warn. With Enforce, the class does not allow: "
            f"{'; '.join(violations)}. Change the resource, use another class, or change the limits of the class."
        )
        return Verdict(FALSE, "ClassWouldRefuse", f"{refusal} {changed_defaults}" if changed_defaults else refusal)
    if changed_defaults:
        return Verdict(FALSE, "ClassChanged", changed_defaults)
    return Verdict(
        TRUE, "AsClassSays", f"Revision {revision.name} has the current defaults of class {state.platform.name}."
    )


def _reported_violations(state: State, revision: Revision) -> list[str]:
    """Return what a class that only warns would refuse or limit. Return no violations of any other class."""
    if not state.platform.only_warns:
        return []
    inference, limits = state.inference, state.platform.limits
    rendered = render_limited(inference, revision, limited_children(inference, state.defaults))
    excess = describe_excess(inference, limits, revision)
    return [*(violation.message for violation in limit_violations(rendered, limits)), *([excess] if excess else [])]


def judge_replicas_limited(state: State) -> Verdict | None:
    """Judge the condition ReplicasLimited: the spec requests more replicas than its class allows."""
    limits, excess = state.platform.enforced_limits, state.rollout.excess
    if state.rollout.current is None or (limits.max_replicas is None and limits.max_cards is None):
        return None
    if excess is None:
        return Verdict(FALSE, "WithinLimits", "The class allows all requested replicas.")
    return Verdict(
        TRUE,
        "LimitedByClass",
        f"{excess}, a limit of class {state.platform.name}. The operator runs {state.desired_replicas} replicas. Lower "
        "the field, or use another class.",
    )


def _describe_changed_defaults(state: State, revision: Revision) -> str | None:
    """Return a sentence about class defaults that a new revision would change, or None if there are none."""
    applied = revision.class_defaults
    before = applied.values if applied else {}
    now = fill_class_defaults(state.inference, state.platform, state.defaults).values
    paths = sorted(path for path in {**before, **now} if before.get(path) != now.get(path))
    if not paths:
        return None
    subject = f"Class {state.platform.name}" if state.platform.name else "The removal of the class"
    identity = state.inference.identity
    return (
        f"{subject} would now change {', '.join(paths)}, but revision {revision.name} "
        f"keeps its values. To apply the change, run: kubectl gaudi rollout restart {identity.name} -n "
        f"{identity.namespace}"
    )
