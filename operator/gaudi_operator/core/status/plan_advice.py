"""The advice in status.plan: how much a plan learned from traffic would save (gaudi_runtime/learning/).

The advice comes from the pod with the most traffic. It comes from the same pod as long as this pod serves and has
advice. Otherwise the advice would alternate between pods with equal traffic, and each change would need a status write.
"""

from gaudi_operator.api.v1alpha1.status import PlanAdvice
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract import report


def plan_advice(state: State) -> PlanAdvice | None:
    """Return the advice on the plan to show in the status now, or None."""
    written = state.before.plan.advice if state.before.plan else None
    pods = {pod.name: pod for pod in state.serving_updated_pods}
    known = pods.get(written.pod) if written else None
    if known and known.report is None:
        return written  # the operator has just started, and has no report of this pod yet
    if known and known.report and known.report.advice:
        return _build_advice(state, known, known.report.advice)
    reported = [(pod, pod.report) for pod in pods.values() if pod.report]
    if not reported:
        return None
    busiest, said = max(reported, key=lambda each: (_count_batches(each[1].served), each[0].name))
    return _build_advice(state, busiest, said.advice) if said.advice else None


def _count_batches(served: report.ServedTraffic) -> int:
    return sum(phase.hits + phase.misses for phase in (served.prompt, served.decode))


def _build_advice(state: State, pod: PodView, advice: report.PlanAdvice) -> PlanAdvice:
    now, learned = advice.now, advice.learned
    captures = pod.report is None or pod.report.decode.capture_applies
    identity = state.inference.identity
    return PlanAdvice(
        graphs=learned.graphs,
        graphs_now=now.graphs,
        warmup_seconds=round(learned.warmup_seconds),
        warmup_seconds_now=round(now.warmup_seconds),
        pod=pod.name,
        message=(
            f"A plan learned from the traffic so far needs {learned.graphs} {'graphs' if captures else 'buckets'} "
            f"instead of {now.graphs} and warms up in about "
            f"{_format_times(learned.warmup_seconds, now.warmup_seconds)}, "
            f"with no more padding. To apply it, run: kubectl gaudi plan learn {identity.name} -n "
            f"{identity.namespace} --apply"
        ),
    )


def _format_times(learned: float, now: float) -> str:
    """Format two times in the same unit: minutes, or seconds if the learned plan takes less than a minute."""
    unit, name = (60, "minutes") if learned >= 60 else (1, "s")
    return f"{learned / unit:.0f} instead of {now / unit:.0f} {name}"
