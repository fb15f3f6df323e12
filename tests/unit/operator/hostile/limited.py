"""Processes of 512 MiB, which is what the chart gives the operator: whatever takes more ends there with an error."""

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
MEMORY = 512 * 2**20
SECONDS = 60
"""Processor time after which a process is killed: far above all that is tested, so that a search without end ends."""

PASSES = """
import json, sys, time
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

spec = json.load(sys.stdin)
Cluster(resource()).operate()
cluster, before, seconds = Cluster(resource(**spec)), peak(), []
for _ in range(2):
    start = time.process_time()
    plan = cluster.operate()
    seconds.append(time.process_time() - start)
conditions = {each["type"]: each for each in cluster.resource["status"]["conditions"]}
print(json.dumps({
    "accepted": conditions["PlanAccepted"],
    "actions": len(cluster.objects),
    "seconds": seconds,
    "kib": peak() - before,
}))
"""


@dataclass(frozen=True)
class Passes:
    """Two passes over a new resource: the condition PlanAccepted, how many objects were made, the processor seconds of
    each, and the bytes by which the peak of the memory grew.
    """

    accepted: dict[str, str]
    objects: int
    seconds: list[float]
    grown: int


def passes(spec: dict[str, Any]) -> Passes:
    """Two passes of decide() over a resource with these overrides of the spec, in a process of 512 MiB."""
    ended = run([sys.executable, "-c", PASSES], json.dumps(spec))
    assert ended.returncode == 0, ended.stderr[-2000:]
    said = json.loads(ended.stdout)
    return Passes(said["accepted"], said["actions"], said["seconds"], said["kib"] * 1024)


def gaudi_plan(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`gaudi-plan` in a process of 512 MiB."""
    return run([sys.executable, "-c", "from gaudi_operator.cli.plan.app import main; main()", *arguments], stdin)


def run(command: list[str], stdin: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of 512 MiB."""
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, cwd=ROOT, check=False, preexec_fn=_limit
    )


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
