"""Soak tests (`make soak`): random steps of the state machine, in memory and on a real API server, and random contents.

Random specs and contents are read in processes with 512 MiB of memory. GAUDI_SOAK_STEPS (100000),
GAUDI_SOAK_CLUSTER_STEPS (1000) and GAUDI_SOAK_CONTENTS (20000 for each reader) set the numbers. GAUDI_SOAK_MINUTES
(120) sets the duration of the tests of random specs, and GAUDI_SOAK_SEED repeats a run.
"""

import gc
import logging
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.unit.operator.hostile.fuzzed import Cost, fuzz, worst, written
from tests.unit.runtime.hostile.fuzzed import fuzz as read_any
from tests.unit.runtime.hostile.readers import READERS
from tests.world.story import Machine

STORIES, STEPS_PER_STORY = 20, 50
MOST_SECONDS_PER_STEP = 4
SPECS_PER_BATCH, CONTENTS_PER_BATCH = 200, 1_000
SPECS_ON_API_SERVER = 500
WORST, WORST_BY_EACH = Path("build/soak/worst"), 4

console = Console()


@dataclass
class Failure:
    """A batch of test runs in which an invariant was violated."""

    seed: int
    story: str


def main() -> int:
    """Run all parts, and return 1 if any of them failed."""
    # Hide the operator's warnings, because an operator under faults writes them all the time.
    logging.getLogger("gaudi_operator").setLevel(logging.CRITICAL)
    first = int(os.environ.get("GAUDI_SOAK_SEED", random.randrange(2**32)))  # noqa: S311
    console.print(f"seed {first}: GAUDI_SOAK_SEED={first} make soak makes the same choices")
    failure = run_in_memory(first, int(os.environ.get("GAUDI_SOAK_STEPS", "100000")))
    wrong = try_specs(first, float(os.environ.get("GAUDI_SOAK_MINUTES", "120")))
    wrong += try_contents(first, int(os.environ.get("GAUDI_SOAK_CONTENTS", "20000")))
    steps = int(os.environ.get("GAUDI_SOAK_CLUSTER_STEPS", "1000"))
    return int(bool(failure or wrong)) | (run_on_api_server(first, steps) if steps else 0)


def try_specs(first: int, minutes: float) -> list[str]:
    """Decide about random specs that pass the schema, for this many minutes. Return the errors.

    Each batch runs in a separate process.
    """
    wrong, decisions, checks, grown = list[str](), list[float](), list[float](), 0
    costs, specs, batch, began = list[Cost](), 0, first, time.monotonic()
    with _progress() as progress:
        task = progress.add_task("minutes of specs of any shape", total=round(minutes))
        while (spent := (time.monotonic() - began) / 60) < minutes:
            progress.update(task, completed=int(spent))
            found = fuzz(batch, SPECS_PER_BATCH)
            batch += 1
            wrong += found.wrong
            specs += found.specs
            decisions += found.decisions
            checks += found.checks
            grown = max(grown, found.grown)
            costs = worst([*costs, *found.costs], WORST_BY_EACH)
    for each in wrong:
        console.print(each, highlight=False, markup=False)
    written(costs, WORST)
    if decisions:
        typical = sorted(decisions)[len(decisions) * 99 // 100]
        console.print(
            f"{specs} specs of any shape: {len(decisions)} decisions, 99 % within {typical * 1000:.0f} ms of processor "
            f"time, at most {max(decisions) * 1000:.0f} ms and {grown / 2**20:.0f} MiB; {len(checks)} checks "
            f"of policies, at most {max(checks, default=0) * 1000:.0f} ms; {len(wrong)} wrong; "
            f"the costliest are in {WORST}",
            highlight=False,
        )
    return wrong


def try_contents(first: int, contents: int) -> list[str]:
    """Read this many random contents with each reader. Return the errors."""
    wrong, read = list[str](), 0
    with _progress() as progress:
        task = progress.add_task("contents of any form", total=contents * len(READERS))
        for name, number in product(READERS, range(-(-contents // CONTENTS_PER_BATCH))):
            found = read_any(name, first + number, CONTENTS_PER_BATCH)
            wrong += found.wrong
            read += found.read
            progress.advance(task, CONTENTS_PER_BATCH)
    for each in wrong:
        console.print(each, highlight=False, markup=False)
    summary = f"{contents} contents of any form for each of {len(READERS)} readers: {read} read, {len(wrong)} wrong"
    console.print(summary, highlight=False)
    return wrong


def run_in_memory(first: int, steps: int) -> Failure | None:
    """Run this many steps against the simulation in memory. Return the first failure, which hypothesis has shrunk."""
    started, totals = time.monotonic(), Machine.totals
    failure, number = None, first
    with _progress() as progress:
        task = progress.add_task("world in memory", total=steps)
        while totals["steps"] < steps and failure is None:
            failure = _batch(number)
            number += 1
            # Each operator freezes all existing objects after its start, so that the garbage collector skips them. This
            # process creates tens of thousands of operators, so it unfreezes and collects their objects.
            gc.unfreeze()
            gc.collect()
            progress.update(task, completed=min(steps, totals["steps"]))
    seconds = time.monotonic() - started
    console.print(
        f"world in memory: {totals['steps']} steps in {totals['stories']} stories, {totals['seconds'] / 3600:.0f} h "
        f"of its time, {totals['moments']} moments, {totals['violations']} violations, in {seconds:.0f} s",
        highlight=False,
    )
    if failure:
        console.print(f"GAUDI_SOAK_SEED={failure.seed} begins with the stories of the failure", highlight=False)
        console.print(failure.story, highlight=False, markup=False)
    return failure


def _batch(number: int) -> Failure | None:
    chosen = settings(
        max_examples=STORIES,
        stateful_step_count=STEPS_PER_STORY,
        phases=(Phase.generate, Phase.shrink),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(number)(Machine), settings=chosen)
    except Exception as error:
        return Failure(number, "\n".join([*getattr(error, "__notes__", ()), f"{type(error).__name__}: {error}"]))
    return Failure(number, Machine.violations[-1]) if Machine.violations else None


def run_on_api_server(first: int, steps: int) -> int:
    """Run this many steps and random specs against a real API server with real operators."""
    console.print(f"real API server: {steps} steps and {SPECS_ON_API_SERVER} specs of any shape", highlight=False)
    environment = {**os.environ, "GAUDI_SOAK_CLUSTER_STEPS": str(steps), "GAUDI_SOAK_SEED": str(first)}
    environment["GAUDI_SOAK_API_SPECS"] = str(SPECS_ON_API_SERVER)
    tests = ("tests/cluster/test_machine.py", "tests/cluster/test_hostile_specs.py")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "--no-header", *tests]
    limit = 600 + (steps + SPECS_ON_API_SERVER) * MOST_SECONDS_PER_STEP
    return subprocess.run(command, env=environment, check=False, timeout=limit).returncode


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console)


if __name__ == "__main__":
    sys.exit(main())
