"""Ready, Reconciling and Stalled: how far a resource is on the way to what is wished (docs/conditions.md).

Ready alone says whether all is as wished; Reconciling is True while the operator is at it; Stalled is True only when
nothing moves on without a person. The last two are never True together, and one of them is True whenever Ready is
False.
"""

from gaudi_operator.core.pods import ENDED
from gaudi_operator.core.rollout import Progress
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.verdict import FALSE, TRUE, Verdict


def judge_ready(s: Situation) -> Verdict:
    """Whether the spec as it stands is fully rolled out and every wished replica takes traffic."""
    if hindrance := s.violation or s.problem:
        return Verdict(FALSE, hindrance.reason, hindrance.message)
    if s.wished == 0:
        return _zero(s)
    if s.step is not None and s.step.progress is Progress.DONE:
        left = _ending(s)
        rest = f"; {left} more still end, and hold their cards until then" if left else ""
        return Verdict(TRUE, "Serving", f"All {s.wished} replicas serve revision {s.current}{rest}.")
    return Verdict(FALSE, *_in_progress(s))


def _zero(s: Situation) -> Verdict:
    """Scaled to zero is over only when the last pod has drained: until then cards are still held."""
    if left := _ending(s):
        return Verdict(FALSE, "ScalingDown", f"{left} pods are still ending, none is wished.")
    return Verdict(TRUE, "ScaledToZero", "No replica is wished, and none runs.")


def _ending(s: Situation) -> int:
    """Pods above those that are wished, which hold their cards until they have ended."""
    return max(0, sum(pod.phase not in ENDED for pod in s.pods) - s.wished)


def _in_progress(s: Situation) -> tuple[str, str]:
    serving = f"{len(s.serving_updated)} of {s.wished} replicas serve revision {s.current}"
    if s.step is not None and s.step.progress is Progress.PAUSED:
        return "RolloutPaused", f"{serving}; the rollout waits for spec.rollout.paused to become false."
    if s.choice is not None and s.choice.rolled_back and s.choice.problem:
        return "RollingBack", f"{serving}. {s.choice.problem.message}"
    if s.old:
        return "RollingOut", f"{serving}; {_pace(s)}, {len(s.old)} left."
    if len(s.active) > s.wished:
        return "ScalingDown", f"{len(s.active)} pods run, {s.wished} are wished."
    if len(s.updated) < s.wished:
        return "StartingPods", f"{serving}; {s.wished - len(s.updated)} pods are still to be made."
    return "WarmingUp", f"{serving}; the others are warming up (status.pods says how far they are)."


def _pace(s: Situation) -> str:
    """What the next step of a rollout waits for."""
    if s.policy.trial:
        seconds = s.inference.spec.rollout.canary.observe_seconds
        held = f" and has held it for {seconds} s" if seconds else ""
        place = " in the place of an older one" if s.in_place else ""
        return f"its first pod is the canary{place}, older pods serve until it has passed its gate{held}"
    if s.in_place:
        return f"pods are replaced in place ({s.in_place.rstrip('.')})"
    return "pods of older revisions go as new ones warm up"


def judge_reconciling(s: Situation) -> Verdict:
    """Whether the operator is on its way to what is wished."""
    ready = judge_ready(s)
    if ready.status is TRUE:
        return Verdict(FALSE, "Settled", "Everything is as the spec wishes.")
    if s.violation or s.problem:
        return Verdict(FALSE, "Stalled", "Nothing moves on by itself; the condition Stalled says why.")
    return Verdict(TRUE, ready.reason, ready.message)


def judge_stalled(s: Situation) -> Verdict:
    """Whether a person must act."""
    if hindrance := s.violation or s.problem:
        return Verdict(TRUE, hindrance.reason, hindrance.message)
    return Verdict(FALSE, "NotStalled", "Nothing asks for a person.")
