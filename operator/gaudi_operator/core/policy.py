"""The rollout's numbers of pods from what the resource says."""

from gaudi_operator.api.v1alpha1.scaling import Rollout, RolloutMode
from gaudi_operator.core.rollout import Policy


def rollout_policy(
    rollout: Rollout, wished: int, *, frozen: bool = False, in_place: bool = False, trial: bool = False
) -> Policy:
    """Percentages are of `wished` replicas: maxSurge rounds up and maxUnavailable down, as Deployments do.

    `frozen` holds the rollout as spec.rollout.paused does, `in_place` takes the surge from mode auto, and `trial` lets
    one pod of the new revision run. Where both numbers come to 0, one pod may be missing:
    otherwise no pod could ever be replaced.
    """
    surge = 0 if in_place or rollout.mode is RolloutMode.IN_PLACE else pods_of(rollout.max_surge, wished, round_up=True)
    unavailable = pods_of(rollout.max_unavailable, wished, round_up=False)
    if surge == 0:
        unavailable = max(1, unavailable)
    return Policy(wished, surge, min(unavailable, wished), paused=rollout.paused or frozen, trial=trial)


def pods_of(amount: int | str, wished: int, *, round_up: bool) -> int:
    """A number of pods, or percent of `wished` such as "25%"."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.removesuffix("%")) * wished
    return -(-hundredths // 100) if round_up else hundredths // 100
