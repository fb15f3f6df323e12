"""Laws of readiness: pods in endpoints have captured graphs, and the condition Ready is correct."""

from collections.abc import Iterator

from tests.laws.history import History, Moment


def no_gate_opens_before_capture(history: History) -> Iterator[str]:
    """A gate opens only for the instance in its message, and only after this instance has captured enough graphs."""
    warm: set[str] = set()
    for _, before, now in history.steps():
        warm |= before.warm | now.warm
        for uid, pod in now.pods.items():
            known = before.pods.get(uid)
            judged_anew = pod.gate and (known is None or not known.gate or known.judged != pod.judged)
            if judged_anew and pod.judged not in warm:
                yield f"{now.at:.0f} s: the gate of {pod.name} opens for {pod.judged}, which was never captured"


def no_gate_closes_without_evidence(history: History) -> Iterator[str]:
    """A gate stays open while its instance serves and its requests wait for no more compiles than the limit."""
    for number, before, now in history.steps():
        for uid, pod in now.pods.items():
            known = before.pods.get(uid)
            if known is None or not known.gate or pod.gate or not pod.counts:
                continue
            if all(_runs(uid, known.judged, each) for each in history.pictures(number)):
                yield f"{now.at:.0f} s: the gate of {pod.name} closes although {known.judged} serves"


def never_ready_before_captured(history: History) -> Iterator[str]:
    """Ready is True only if all desired replicas answer from warm instances, as far as the operator can know."""
    for number, before, now in history.steps():
        if now.status == before.status or now.condition("Ready").get("status") != "True":
            continue
        # Consider all recent states, because the watches of resources and pods are not synchronized: the operator may
        # have the newest spec together with an older state of the pods.
        pictures = history.pictures(number)
        desired = min(_desired(each) for each in pictures if _generation(each) >= now.status["observedGeneration"])
        if max(_answering(each) for each in pictures) < desired:
            yield f"{now.at:.0f} s: Ready is True, although {desired} replicas were not warm recently"


def no_gate_outlives_its_container(history: History) -> Iterator[str]:
    """A gate closes after its instance has ended, as soon as the kubelet and then the operator can notice the end."""
    for (name, instance, _), since, until in history.spells(_outlived):
        if until > history.reacted_by(since + history.kubelet):
            yield f"{until:.0f} s: the gate of {name} is open for {instance}, which is gone since {since:.0f} s"


def no_cold_pod_in_endpoints(history: History) -> Iterator[str]:
    """A pod whose container does not answer leaves the endpoints as soon as its kubelet can notice it."""
    for (name, _), since, until in history.spells(_cold):
        if until - since > history.kubelet:
            yield f"{until:.0f} s: {name} is cold and in the endpoints since {since:.0f} s"


def _outlived(moment: Moment) -> Iterator[tuple[str, str | None, str]]:
    """Yield (name, judged instance, UID) of each pod whose gate is open for an instance that no longer runs."""
    for uid, pod in moment.pods.items():
        runtime = moment.runtimes.get(uid)
        seen = runtime is None or runtime.reachable
        if pod.counts and pod.gate and seen and (runtime is None or runtime.instance != pod.judged):
            yield pod.name, pod.judged, uid


def _cold(moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield (name, UID) of each pod in the endpoints that does not answer."""
    for uid in moment.endpoints:
        runtime = moment.runtimes.get(uid)
        if runtime is None or (runtime.reachable and not runtime.serving):
            yield moment.pods[uid].name, uid


def _runs(uid: str, instance: str | None, moment: Moment) -> bool:
    runtime = moment.runtimes.get(uid)
    unwanted = moment.hot if moment.spec.get("readiness", {}).get("onRecompiles") == "CloseGate" else frozenset()
    return runtime is not None and runtime.instance == instance and instance in moment.warm - unwanted


def _answering(moment: Moment) -> int:
    found = [moment.runtimes[uid] for uid in moment.endpoints if uid in moment.runtimes]
    # A pod on a lost node counts as warm, because the operator cannot observe that its container ended until the node
    # counts as lost.
    return sum(each.instance in moment.warm or not each.reachable for each in found)


def _desired(moment: Moment) -> int:
    return int(moment.spec.get("replicas", 1))


def _generation(moment: Moment) -> int:
    return int(moment.resource["metadata"]["generation"])
