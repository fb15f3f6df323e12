"""The condition ClassApplied: changed defaults of the class, and violations that a class in trial will refuse.

See docs/how-to/classes.md.
"""

from gaudi_operator.core.admission.class_trial import trial_violations
from gaudi_operator.core.classes import fill_class_defaults
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict


def judge_class_applied(state: State) -> Verdict | None:
    """Judge the condition ClassApplied: the revision has the current defaults of its class and meets its limits.

    Limits are reported here only during a trial. Otherwise the condition PlanAccepted reports them.
    """
    revision = state.rollout.current
    if state.platform.spec is None and (revision is None or revision.class_defaults is None):
        return None
    if state.violation or revision is None:
        return Verdict(UNKNOWN, "PlanNotAccepted", "The class is applied after the condition PlanAccepted is True.")
    if problem := state.forbidden.get(revision.name):
        return Verdict(FALSE, problem.reason, problem.message)
    changed_defaults = _describe_changed_defaults(state, revision)
    if violations := trial_violations(state.inference, revision, state.platform):
        refusal = (
            f"Class {state.platform.name} is in trial. When the trial ends, the class will refuse this resource: "
            f"{'; '.join(violations)}. Change the resource, use another class, or change the limits of the class."
        )
        return Verdict(FALSE, "ClassWouldRefuse", f"{refusal} {changed_defaults}" if changed_defaults else refusal)
    if changed_defaults:
        return Verdict(FALSE, "ClassChanged", changed_defaults)
    return Verdict(
        TRUE, "AsClassSays", f"Revision {revision.name} has the current defaults of class {state.platform.name}."
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
