"""The process that compares plans: `python -m gaudi_runtime.learning.comparison_process`.

It reads a Question and writes the advice. Serving has priority over this process: it uses only idle processor time, has
limits for processor time and memory, and is the first process that the kernel kills if memory runs out.
"""

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaudi_runtime.contract.report import PlanAdvice
    from gaudi_runtime.learning.comparison import ComparisonInput

# The plans of the examples take at most 8 seconds and 56 MiB. The limits are higher, because larger server limits need
# more.
CPU_SECONDS = 120
MEMORY_BYTES = 512 * 1024**2
WALL_SECONDS = 900.0
LOWEST_PRIORITY = 19
FIRST_TO_END = "1000"
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
"""The variables of the process, which gets no tokens and no preloaded libraries."""
MOST_ERROR = 500


class ComparisonFailed(Exception):
    """The error that the comparison process ended without an answer. The message contains the reason."""


async def compare_in_process(
    question: "ComparisonInput", seconds: float = WALL_SECONDS, niceness: int = LOWEST_PRIORITY
) -> "PlanAdvice | None":
    """Compare plans in a separate process within `seconds`, and return the advice. Raises ComparisonFailed."""
    # A separate thread starts the process. Otherwise the event loop could not answer requests while the process starts.
    process = await asyncio.to_thread(start_comparison, niceness)
    try:
        question_json = question.model_dump_json(by_alias=True).encode()
        answer = await asyncio.to_thread(_communicate, process, question_json, seconds)
    finally:
        process.kill()
    return _parse_advice(answer)


def _communicate(process: "subprocess.Popen[bytes]", question_json: bytes, seconds: float) -> bytes:
    try:
        answer, error_output = process.communicate(question_json, seconds)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()  # only this closes the pipes
        raise ComparisonFailed(f"the comparison took more than {seconds:g} s") from error
    if process.returncode:
        last_line = error_output.decode(errors="replace").strip().rpartition("\n")[2][-MOST_ERROR:]
        raise ComparisonFailed(f"the comparison ended with exit code {process.returncode}: {last_line}")
    return answer


def start_comparison(niceness: int = LOWEST_PRIORITY) -> "subprocess.Popen[bytes]":
    """Start the comparison process, which reads a question from its standard input."""
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    pipe = subprocess.PIPE
    # There is no preexec_fn, because it would copy the memory map of this process. Instead, the new process first
    # limits its own resources.
    command = [sys.executable, "-m", "gaudi_runtime.learning.comparison_process", str(niceness)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def _parse_advice(answer: bytes) -> "PlanAdvice | None":
    from pydantic import TypeAdapter

    from gaudi_runtime.contract.report import PlanAdvice

    advice: PlanAdvice | None = TypeAdapter(PlanAdvice | None).validate_json(answer)
    return advice


def _limit_resources(niceness: int) -> None:
    """Lower the priority of this process, and limit its processor time and memory."""
    os.nice(niceness)
    if niceness == LOWEST_PRIORITY:
        with contextlib.suppress(OSError):  # not every kernel lets a process choose
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_END)
    for kind, limit in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY_BYTES)):
        _, hard_limit = resource.getrlimit(kind)
        capped_limit = limit if hard_limit == resource.RLIM_INFINITY else min(limit, hard_limit)
        resource.setrlimit(kind, (capped_limit, capped_limit))


def main() -> None:
    """Read a question from standard input, and write the advice as JSON, or null if there is no advice."""
    _limit_resources(int(sys.argv[1]))
    from gaudi_runtime.learning.comparison import ComparisonInput, advise

    advice = advise(ComparisonInput.model_validate_json(sys.stdin.buffer.read()))
    sys.stdout.write(advice.model_dump_json(by_alias=True) if advice else "null")


if __name__ == "__main__":
    main()
