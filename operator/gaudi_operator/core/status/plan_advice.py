"""The advice in status.plan: how much a plan learned from traffic would save (gaudi_runtime/learning/).

The advice comes from the pod with the most traffic. It comes from the same pod as long as this pod serves and has
advice. Otherwise the advice would alternate between pods with equal traffic, and each change would need a status write.
"""

from gaudi_operator.api.v1alpha1.status import PlanAdvice
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract import report


def plan_advice(state: State) -> PlanAdvice | None:
    """Return the advice on the plan to show in the status now, or None."""
    previous_advice = state.previous_status.plan.advice if state.previous_status.plan else None
    pods_by_name = {pod.name: pod for pod in state.serving_updated_pods}
    previous_pod = pods_by_name.get(previous_advice.pod) if previous_advice else None
    if previous_pod and previous_pod.report is None:
        return previous_advice  # the operator has just started, and has no report of this pod yet
    if previous_pod and previous_pod.report and previous_pod.report.advice:
        return _build_advice(state, previous_pod.name, previous_pod.report)
    candidates = [(pod, pod.report) for pod in pods_by_name.values() if pod.report]
    if not candidates:
        return None
    busiest_pod, busiest_report = max(candidates, key=lambda pair: (_count_batches(pair[1].served), pair[0].name))
    return _build_advice(state, busiest_pod.name, busiest_report)


def _count_batches(served: report.ServedTraffic) -> int:
    return sum(phase.hits + phase.misses for phase in (served.prompt, served.decode))


def _build_advice(state: State, pod_name: str, pod_report: report.WarmupReport) -> PlanAdvice | None:
    if pod_report.advice is None:
        return None
    current_plan, learned_plan = pod_report.advice.now, pod_report.advice.learned
    noun, _ = pod_report.decode.preparation.words
    identity = state.inference.identity
    return PlanAdvice(
        pod=pod_name,
        message=(
            f"A plan learned from the traffic so far needs {learned_plan.graphs} {noun} "
            f"instead of {current_plan.graphs} and warms up in about "
            f"{_format_times(learned_plan.warmup_seconds, current_plan.warmup_seconds)}, "
            f"with no more padding. To apply it, run: kubectl gaudi plan learn {identity.name} -n "
            f"{identity.namespace} --apply"
        ),
    )


def _format_times(learned_seconds: float, current_seconds: float) -> str:
    """Format two times in the same unit: minutes, or seconds if the learned plan takes less than a minute."""
    unit_seconds, unit_name = (60, "minutes") if learned_seconds >= 60 else (1, "s")
    return f"{learned_seconds / unit_seconds:.0f} instead of {current_seconds / unit_seconds:.0f} {unit_name}"
