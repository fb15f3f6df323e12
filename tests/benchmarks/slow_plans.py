"""The latency of gates while the operator computes plans that take seconds for another resource.

    python -m tests.benchmarks.slow_plans

The benchmark uses a real API server with controllers, and writes the pods' reports itself. In the first phase, pods of
20 resources become warm one after the other, two per second. In the second phase, pods of 20 other resources become
warm at the same rate, while another resource changes its spec every second. Each change needs a new plan that takes
seconds of processor time, so the operator always computes a plan.

As a lower bound, another client writes a condition to a pod five times a second, and measures the time until a watch
shows the condition. The exit code is 1 if the p99 of the second phase is more than a second above the p99 of the first
phase, or if the operator did not compute plans that take seconds.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import psutil

from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.gate_latency import bare_writes, gate_delays
from tests.benchmarks.operator_stage import LONG_LEASE, Stage, run_benchmark, running, settled
from tests.support.background import Background
from tests.support.builders import gaudi_inference
from tests.support.kube_api import KubeApi, until
from tests.unit.operator.hostile.specs import optimal, spec

RESOURCES, REPLICAS = 20, 5
"""The resources of a phase, and the pods of each."""
DONE_PER_SECOND = 2.0
PROGRESS_SECONDS = 5.0
"""Seconds between two reports of a pod that warms up."""
CHANGE_SECONDS = 1.0
MOST_DELAY = 1.0
"""The limit of the difference of p99 between the phases, in seconds."""
FEWEST_PLANS, LEAST_SECONDS = 3, 1.0
"""The fewest plans of the second phase, and their least mean processor time. With less, the run measured no load."""
SETTINGS = {**LONG_LEASE, "plan_cpu_seconds": 60}
"""On a busy machine a plan takes more processor time. No plan must be stopped."""
PROMPTS = 256
SLOW = spec(
    optimal(PROMPTS, 200, 9),
    {"maxModelLen": 131_072},
    blockSize=128,
    maxNumSeqs=512,
    maxNumPrefillSeqs=PROMPTS,
    maxNumBatchedTokens=131_072,
)
"""A resource without pods whose plan takes seconds of processor time."""


@dataclass(frozen=True)
class PlanWork:
    """The work of the operator's process for plans since its start: number of answers, processor time in seconds."""

    answers: int
    seconds: float

    def since(self, before: "PlanWork") -> "PlanWork":
        """Return the work that was done after `before`."""
        return PlanWork(self.answers - before.answers, self.seconds - before.seconds)


async def measure(stage: Stage) -> list[Figure]:
    """Return the figures of both phases and their difference."""
    for phase, number in itertools.product(("before", "during"), range(RESOURCES)):
        await stage.api.create(gaudi_inference(f"{phase}-{number}", replicas=REPLICAS))
    pods = 2 * RESOURCES * REPLICAS
    await until(partial(running, stage.kubelet, pods), f"{pods} pods", seconds=300)
    await until(partial(settled, stage.operator), "the requests of the start to end", seconds=120)
    planner = _plan_process(stage.operator.pid)
    async with bare_writes(stage) as bare:
        without = await _delays(stage, "before")
        floor_without = sorted(bare)
        async with _changes(stage.api):
            await until(partial(_has_answered, planner, _work(planner).answers), "the first slow plan", seconds=120)
            before, began, written = _work(planner), time.monotonic(), len(bare)
            during = await _delays(stage, "during")
            took, plans = time.monotonic() - began, _work(planner).since(before)
            floor_during = sorted(bare[written:])
    return [
        *_spread("report -> gate seen, without slow plans", without),
        *_spread("report -> gate seen, with slow plans", during),
        Figure("difference of p99", percentile(during, 99) - percentile(without, 99), "s", MOST_DELAY),
        *_spread("bare write -> seen, without slow plans", floor_without),
        *_spread("bare write -> seen, with slow plans", floor_during),
        *_plan_figures(plans, took),
    ]


async def _delays(stage: Stage, phase: str) -> list[float]:
    names = sorted(name for name in stage.kubelet.runtimes if name.startswith(f"{phase}-"))
    assert len(names) == RESOURCES * REPLICAS, f"phase {phase} has {len(names)} pods"
    return await gate_delays(
        stage.api, stage.kubelet, names, per_second=DONE_PER_SECOND, progress_seconds=PROGRESS_SECONDS
    )


def _spread(name: str, ordered: list[float]) -> list[Figure]:
    return [
        Figure(f"{name}: p50 of {len(ordered)}", percentile(ordered, 50), "s"),
        Figure("  p99", percentile(ordered, 99), "s"),
        Figure("  max", ordered[-1], "s"),
    ]


def _plan_figures(plans: PlanWork, took: float) -> list[Figure]:
    """Return the figures of the plans of the second phase. Raise AssertionError if the plans were not slow enough."""
    assert plans.answers >= FEWEST_PLANS, f"the operator computed {plans.answers} plans, expected {FEWEST_PLANS}"
    mean = plans.seconds / plans.answers
    assert mean >= LEAST_SECONDS, f"a plan took {mean:.2f} s of processor time, expected at least {LEAST_SECONDS:g} s"
    return [
        Figure("plans computed meanwhile", plans.answers, ""),
        Figure("  processor time of a plan, mean", mean, "s"),
        Figure("  time between two plans, mean", took / plans.answers, "s"),
    ]


@asynccontextmanager
async def _changes(api: KubeApi) -> AsyncIterator[None]:
    """Change the traffic of the slow resource every second during the block."""
    traffic = SLOW["bucketing"]["optimal"]["traffic"]
    await api.create(gaudi_inference("slow", **SLOW, replicas=0))

    async def change() -> None:
        for number in itertools.count(2):
            await asyncio.sleep(CHANGE_SECONDS)
            changed = {"traffic": f"{traffic}\nprompt 1 1 0 {number}"}
            await api.merge("GaudiInference", "slow", {"spec": {"bucketing": {"optimal": changed}}})

    background = Background()
    background.spawn(change())
    yield
    await background.stop()
    background.check()


def _plan_process(operator: int) -> psutil.Process:
    """Return the operator's process for plans.

    The leader starts the process, which ends only if a plan exceeds a limit.
    """
    [found] = [each for each in psutil.Process(operator).children() if any("plan_worker" in a for a in each.cmdline())]
    return found


def _work(planner: psutil.Process) -> PlanWork:
    # The planner process writes each answer with one system call and makes no other writes, so the number of writes is
    # the number of answers.
    return PlanWork(planner.io_counters().write_count, sum(planner.cpu_times()[:2]))


async def _has_answered(planner: psutil.Process, before: int) -> bool:
    return _work(planner).answers > before


if __name__ == "__main__":
    sys.exit(run_benchmark(measure, SETTINGS))
