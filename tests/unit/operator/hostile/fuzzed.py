"""Random specs for decide() under the operator's limits: a process of 512 MiB, and the check of the policy.

If a decision takes MOST_DECISION seconds of processor time, the kernel kills the process, and the failure names the
spec. The tests assert no duration.
"""

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

from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck
from gaudi_operator.shell.kinds import kind_of
from gaudi_operator.shell.watching.incoming import reduce_incoming_object
from gaudi_runtime.errors import Problem
from tests.support.builders import gaudi_inference
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition
from tests.unit.operator.hostile.any_spec import Generator
from tests.unit.operator.hostile.limited import peak, reset_peak, run
from tests.unit.operator.hostile.specs import STAIRCASES

MOST_DECISION = 4.0
"""Several times the maximum of any decision, for slow machines."""

WORST = 10
"""The number of specs that a process reports for each measure."""


@dataclass
class Cost:
    """The cost of two reconciles of a new resource with this spec.

    `decision` is the processor time of the costliest decision in seconds, without `check`, the time of the check of
    the policy. `grown` is the growth of the peak memory in bytes.
    """

    where: str
    reason: str
    spec: dict[str, Any]
    decision: float = 0.0
    grown: int = 0
    check: float = 0.0


@dataclass
class Found:
    """The results of fuzzing: reasons of PlanAccepted, the costliest specs, and defects of the operator.

    Times of decisions and of checks are processor time in seconds.
    """

    specs: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    decisions: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
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
        "file: condition PlanAccepted; processor time of a pass, its memory; time of the check of its policy; whence"
    ]
    for number, each in enumerate((known, *costs)):
        name = f"{number:02}"
        manifest = {**gaudi_inference(f"worst-{name}"), "spec": each.spec}
        folder.joinpath(f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True))
        took = f"{each.decision * 1000:.0f} ms, {each.grown / 2**20:.1f} MiB; {each.check * 1000:.0f} ms"
        lines.append(f"{name}.yaml: {each.reason}; {took}; {each.where}")
    folder.joinpath("README").write_text("\n".join(lines) + "\n")


MEASURES: tuple[Callable[[Cost], float], ...] = (
    lambda each: each.decision,
    lambda each: each.grown,
    lambda each: each.check,
)


def fuzz(seed: int, specs: int) -> Found:
    """Try `specs` random specs of a seed."""
    ended = run(_fuzz, seed, specs)
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        return Found(wrong=[f"ended with {ended.returncode} at {' '.join(lines[-1:])}: {ended.stderr[-2000:]}"])
    return Found(**json.loads(lines[-1]))


def _fuzz(seed: int, specs: int) -> None:
    sys.stdout.write(json.dumps(asdict(_fuzz_all(seed, specs))))


def _fuzz_all(seed: int, specs: int) -> Found:
    found, generator, costs = Found(), Generator(seed), list[Cost]()
    Cluster(resource()).operate()
    before, most = peak(), 0
    for number in range(specs):
        spec = generator.spec()
        # Write the number with `os.write`, which does not buffer, because the kernel may kill the process during this
        # spec.
        os.write(1, f"spec {number} of seed {seed}\n".encode())
        found.specs += 1
        cost = Cost(f"spec {number} of seed {seed}", "", spec)
        try:
            _reconcile_twice(cost, found)
            most, costs = max(most, peak()), worst([*costs, cost], WORST)
        except Exception as error:
            found.wrong.append(f"spec {number} of seed {seed}: {type(error).__name__}: {str(error)[:500]}")
    found.grown, found.worst = most - before, [asdict(each) for each in costs]
    return found


def _reconcile_twice(cost: Cost, found: Found) -> None:
    """Reconcile twice: the second reconcile observes the objects of the first."""
    cluster = Cluster({**resource(), "spec": cost.spec})
    reset_peak("self")
    before = peak()
    for _ in range(2):
        _decide(cluster, cost, found)
    cost.grown = peak() - before
    _, reason = condition(cluster, "PlanAccepted")
    cost.reason = reason
    found.reasons[reason] = found.reasons.get(reason, 0) + 1
    if wrong := violations(cluster.resource):
        raise AssertionError(wrong)
    for manifest in cluster.objects.values():
        if reduce_incoming_object(kind_of(manifest), manifest) is not manifest:
            raise AssertionError(f"a {manifest['kind']} that the operator makes is larger than it reads")
    if (reason == "Accepted") != bool(cluster.kind("ReplicaSet")):
        raise AssertionError(f"PlanAccepted has reason {reason}, and there are {len(cluster.objects)} children")


def _decide(cluster: Cluster, cost: Cost, found: Found) -> None:
    def check(policy_check: BucketPolicyCheck) -> Problem | None:
        began = time.process_time()
        try:
            return policy_check.run()
        finally:
            checks.append(time.process_time() - began)

    checks, began = list[float](), time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_DECISION)
    cluster.operate(check)
    signal.setitimer(signal.ITIMER_PROF, 0)
    found.decisions.append(time.process_time() - began - sum(checks))
    found.checks += checks
    cost.decision, cost.check = max(cost.decision, found.decisions[-1]), max(cost.check, *checks, 0.0)
