"""Random specs for decide() under the operator's limits: a process of 512 MiB and the real plan worker.

If a decision takes MOST_DECISION seconds of processor time, the kernel kills the process, and the failure names the
spec. The tests assert no duration.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gaudi_operator.core.actions import Decision
from gaudi_operator.shell.kinds import kind_of
from gaudi_operator.shell.plans.planning import Planner
from gaudi_operator.shell.watching.incoming import reduce_foreign
from gaudi_operator.shell.watching.store import Key
from tests.support.builders import gaudi_inference
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition
from tests.unit.operator.hostile.any_spec import Generator
from tests.unit.operator.hostile.limited import children, peak, reset_peak, run
from tests.unit.operator.hostile.specs import STAIRCASES

MOST_DECISION = 4.0
"""Several times the maximum of any decision, for slow machines."""

WORST = 10
"""The number of specs that a process reports for each measure."""


@dataclass
class Cost:
    """The cost of two reconciles of a new resource with this spec.

    `decision` is the processor time of the costliest decision in seconds, and `grown` is the growth of the peak memory
    in bytes. `questions` is the wall-clock time of all questions about the plan in seconds, and `planner` is the peak
    memory of the process that answered these questions, in bytes.
    """

    where: str
    reason: str
    spec: dict[str, Any]
    decision: float = 0.0
    grown: int = 0
    questions: float = 0.0
    planner: int = 0


@dataclass
class Found:
    """The results of fuzzing: reasons of PlanAccepted, the costliest specs, and defects of the operator.

    The time of a decision is processor time in seconds. The time of a question about a plan is wall-clock time in
    seconds.
    """

    specs: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    decisions: list[float] = field(default_factory=list)
    questions: list[float] = field(default_factory=list)
    worst: list[dict[str, Any]] = field(default_factory=list)
    grown: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def costs(self) -> list[Cost]:
        """The costliest specs by each measure."""
        return [Cost(**each) for each in self.worst]


def worst(costs: Iterable[Cost], count: int) -> list[Cost]:
    """Return the `count` costliest specs by each measure, without duplicates and without unreadable specs."""
    admitted = [each for each in costs if each.reason != "SpecUnreadable"]
    found = dict[str, Cost]()
    for measure in MEASURES:
        for each in sorted(admitted, key=measure, reverse=True)[:count]:
            found[each.where] = each
    return list(found.values())


def written(costs: Iterable[Cost], folder: Path) -> None:
    """Write the specs as manifests for kubectl, after a spec of known cost. Write a README with all costs."""
    folder.mkdir(parents=True, exist_ok=True)
    known = Cost("the staircases of specs.py", "PlanImpossible", resource(**STAIRCASES)["spec"])
    lines = [
        "file: condition PlanAccepted; processor time of a pass, its memory; work on its plan by the clock; whence"
    ]
    for number, each in enumerate((known, *costs)):
        name = f"{number:02}"
        manifest = {**gaudi_inference(f"worst-{name}"), "spec": each.spec}
        folder.joinpath(f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True))
        took = f"{each.decision * 1000:.0f} ms, {each.grown / 2**20:.1f} MiB; {each.questions:.1f} s"
        lines.append(f"{name}.yaml: {each.reason}; {took}; {each.where}")
    folder.joinpath("README").write_text("\n".join(lines) + "\n")


MEASURES: tuple[Callable[[Cost], float], ...] = (
    lambda each: each.decision,
    lambda each: each.grown,
    lambda each: each.questions,
)


def fuzz(seed: int, specs: int, plan_seconds: float) -> Found:
    """Try `specs` random specs of a seed, with `plan_seconds` of processor time for each question about a plan."""
    ended = run(_fuzz, seed, specs, plan_seconds)
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        return Found(wrong=[f"ended with {ended.returncode} at {' '.join(lines[-1:])}: {ended.stderr[-2000:]}"])
    return Found(**json.loads(lines[-1]))


def _fuzz(seed: int, specs: int, plan_seconds: float) -> None:
    found = asyncio.run(_fuzz_all(seed, specs, plan_seconds))
    sys.stdout.write(json.dumps(asdict(found)))


async def _fuzz_all(seed: int, specs: int, plan_seconds: float) -> Found:
    found, generator, costs = Found(), Generator(seed), list[Cost]()
    Cluster(resource()).operate()
    before, most = peak(), 0
    async with Planner(256 * 2**20, plan_seconds) as planner:
        for number in range(specs):
            spec = generator.spec()
            # Write the number with `os.write`, which does not buffer, because the kernel may kill the process during
            # this spec.
            os.write(1, f"spec {number} of seed {seed}\n".encode())
            found.specs += 1
            cost = Cost(f"spec {number} of seed {seed}", "", spec)
            try:
                await _reconcile_twice(planner, cost, found)
                most, costs = max(most, peak()), worst([*costs, cost], WORST)
            except Exception as error:
                found.wrong.append(f"spec {number} of seed {seed}: {type(error).__name__}: {str(error)[:500]}")
    found.grown, found.worst = most - before, [asdict(each) for each in costs]
    return found


async def _reconcile_twice(planner: Planner, cost: Cost, found: Found) -> None:
    """Reconcile twice: the second reconcile observes the objects of the first."""
    cluster = Cluster({**resource(), "spec": cost.spec})
    for each in ("self", *children()):
        reset_peak(each)
    before = peak()
    for _ in range(2):
        while (decision := _decide(cluster, planner, found)).question is not None:
            cost.decision = max(cost.decision, found.decisions[-1])
            answered = asyncio.Event()
            began = time.perf_counter()
            planner.queue_question(
                Key("models", "tiny"), decision.question, lambda _, answered=answered: answered.set()
            )
            await answered.wait()
            found.questions.append(time.perf_counter() - began)
            cost.questions += found.questions[-1]
            cost.planner = max(cost.planner, *map(peak, children()), 0)
        cost.decision = max(cost.decision, found.decisions[-1])
    cost.grown = peak() - before
    _, reason = condition(cluster, "PlanAccepted")
    cost.reason = reason
    found.reasons[reason] = found.reasons.get(reason, 0) + 1
    if wrong := violations(cluster.resource):
        raise AssertionError(wrong)
    for manifest in cluster.objects.values():
        if reduce_foreign(kind_of(manifest), manifest) is not manifest:
            raise AssertionError(f"a {manifest['kind']} that the operator makes is larger than it reads")
    # The speed of the machine decides whether a plan that takes nearly `plan_seconds` is accepted. So compare the
    # reason with the children instead of an expected reason.
    if (reason in ("Accepted", "AcceptedAgainstEstimate")) != bool(cluster.kind("ReplicaSet")):
        raise AssertionError(f"PlanAccepted has reason {reason}, and there are {len(cluster.objects)} children")


def _decide(cluster: Cluster, planner: Planner, found: Found) -> Decision:
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_DECISION)
    decision = cluster.operate(planner.answers)
    signal.setitimer(signal.ITIMER_PROF, 0)
    found.decisions.append(time.process_time() - began)
    return decision
