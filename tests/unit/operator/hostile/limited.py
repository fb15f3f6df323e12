"""Processes of 512 MiB, which is what the chart gives the operator: whatever takes more ends there with an error.

They are forked from one that has imported the operator, so that a case takes what it is about and no imports.
"""

import json
import multiprocessing
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY = 512 * 2**20
SECONDS = 60
"""Processor time after which a process is killed: far above all that is tested, so that a search without end ends."""

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["gaudi_operator.cli.plan.app", "gaudi_operator.shell.polling.status_port", "rich.table", __name__]
)


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it wrote."""

    returncode: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Passes:
    """Two passes over a new resource: the condition PlanAccepted, how many objects were made, the calls of functions
    in each (its work, in a unit that no other process disturbs; only where `counted`), and the bytes by which the peak
    of the memory grew.
    """

    accepted: dict[str, str]
    objects: int
    calls: list[int]
    grown: int


def passes(spec: dict[str, Any], *, counted: bool = False) -> Passes:
    """Two passes of decide() over a resource with these overrides of the spec, in a process of 512 MiB."""
    ended = run(_operate_twice, spec, counted)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return Passes(**json.loads(ended.stdout))


def gaudi_plan(*arguments: str, stdin: str = "") -> Ended:
    """`gaudi-plan` in a process of 512 MiB."""
    return run(_gaudi_plan, arguments, stdin=stdin)


def run(work: Callable[..., None], *arguments: Any, stdin: str = "") -> Ended:
    """A function of a module in a process of 512 MiB."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(stdin)
        process = FORKED.Process(target=_limited, args=(files, work, arguments))
        process.start()
        process.join()
        return Ended(process.exitcode, *(file.read_text() if file.exists() else "" for file in files[1:]))


def _limited(files: list[Path], work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    for number, (file, flags) in enumerate(zip(files, (os.O_RDONLY, *[os.O_CREAT | os.O_WRONLY] * 2), strict=True)):
        os.dup2(os.open(file, flags), number)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    work(*arguments)


def _gaudi_plan(arguments: tuple[str, ...]) -> None:
    from gaudi_operator.cli.plan.app import main

    sys.argv = ["gaudi-plan", *arguments]
    main()


def _operate_twice(spec: dict[str, Any], counted: bool) -> None:
    from tests.unit.operator.core.cluster import Cluster
    from tests.unit.operator.core.resources import resource as resource_of

    Cluster(resource_of()).operate()
    cluster, before, calls = Cluster(resource_of(**spec)), peak(), [0, 0]

    def count(number: int) -> Callable[..., None]:
        def called(_: Any, event: str, __: Any) -> None:
            calls[number] += event == "call"

        return called

    for number in range(2):
        sys.setprofile(count(number) if counted else None)
        cluster.operate()
        sys.setprofile(None)
    conditions = {each["type"]: each for each in cluster.resource["status"]["conditions"]}
    found = Passes(conditions["PlanAccepted"], len(cluster.objects), calls, peak() - before)
    sys.stdout.write(json.dumps(vars(found)))


def peak(pid: int | str = "self") -> int:
    """Bytes of memory that a process has had at most, since its peak was forgotten; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def forget_peak(pid: int | str = "self") -> None:
    """The peak of a process is from now on what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def children() -> list[int]:
    """Process ids of those that this thread has started and that live."""
    return [int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
