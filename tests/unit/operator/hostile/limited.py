"""Processes with 512 MiB, the operator's memory limit in the chart. A process that needs more memory fails.

The processes are forked from a process that has already imported the operator, so that imports are not measured.
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
"""Processor seconds after which a process is killed, far above every tested case, to end endless loops."""

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["gaudi_operator.cli.plan.app", "gaudi_operator.shell.polling.status_port", "rich.table", __name__]
)


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a process."""

    returncode: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Passes:
    """Two reconciles of a new resource.

    `accepted` is the condition PlanAccepted, and `objects` is the number of created objects. If `counted`, `calls` has
    the function calls of each reconcile, a measure of work that does not depend on other processes. `grown` is the
    growth of the peak memory in bytes.
    """

    accepted: dict[str, str]
    objects: int
    calls: list[int]
    grown: int


def reconcile_twice(spec: dict[str, Any], *, counted: bool = False) -> Passes:
    """Reconcile a resource with these overrides twice, in a process of 512 MiB."""
    ended = run(_operate_twice, spec, counted)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return Passes(**json.loads(ended.stdout))


def gaudi_plan(*arguments: str, stdin: str = "") -> Ended:
    """Run `gaudi-plan` in a process of 512 MiB."""
    return run(_gaudi_plan, arguments, stdin=stdin)


def run(work: Callable[..., None], *arguments: Any, stdin: str = "") -> Ended:
    """Run `work`, a function of a module, in a process of 512 MiB. Return the exit code and the output."""
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
    """Return the peak memory of a process in bytes since the last reset; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def reset_peak(pid: int | str = "self") -> None:
    """Reset the peak memory of a process to its current memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
