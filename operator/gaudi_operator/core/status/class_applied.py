"""The condition ClassApplied: changed defaults of the class, and violations that a class in trial will refuse.

See docs/how-to/classes.md.
"""

from gaudi_operator.core.admission.class_trial import trial_violations
from gaudi_operator.core.classes import fill_class_defaults
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict


def judge_class_applied(s: State) -> Verdict | None:
    """Judge the condition ClassApplied: the revision has the current defaults of its class and meets its limits.

    Limits are reported here only during a trial. Otherwise the condition PlanAccepted reports them.
    """
    current = s.rollout.current
    if s.platform.says is None and (current is None or current.from_class is None):
        return None
    if s.platform.problem or current is None:
        return Verdict(UNKNOWN, "PlanNotAccepted", "The class is applied after the condition PlanAccepted is True.")
    changed = _describe_changed_defaults(s, current)
    if beyond := trial_violations(s.inference, current, s.platform):
        refusal = (
            f"Class {s.platform.name} is in trial. When the trial ends, the class will refuse this resource: "
            f"{'; '.join(beyond)}. Change the resource, use another class, or change the limits of the class."
        )
        return Verdict(FALSE, "ClassWouldRefuse", f"{refusal} {changed}" if changed else refusal)
    if changed:
        return Verdict(FALSE, "ClassChanged", changed)
    return Verdict(TRUE, "AsClassSays", f"Revision {current.name} has the current defaults of class {s.platform.name}.")


def _describe_changed_defaults(s: State, current: Revision) -> str | None:
    """Return a sentence about class defaults that a new revision would change, or None if there are none."""
    had = current.from_class
    before, now = had.values if had else {}, fill_class_defaults(s.inference, s.platform).values
    changed = sorted(path for path in {**before, **now} if before.get(path) != now.get(path))
    if not changed:
        return None
    named = f"Class {s.platform.name}" if s.platform.name else "The removal of the class"
    identity = s.inference.identity
    return (
        f"{named} would now change {', '.join(f'spec.{each}' for each in changed)}, but revision {current.name} "
        f"keeps its values. To apply the change, run: kubectl gaudi rollout restart {identity.name} -n "
        f"{identity.namespace}"
    )
