"""A container ends with a reason and leaves no process running. The tests use real processes."""

import signal
from pathlib import Path

from tests.unit.runtime.engines.vllm.process_tree import is_alive, pids, python, wait_until_gone

SLEEPER = "sleep 1000 & echo $!; echo $$; wait"
"""A shell with a child process that prints both process ids."""
ENDS = """
import subprocess, sys
from gaudi_runtime.process.children import child_processes, end_children, measure_activity
subprocess.Popen(["sh", "-c", sys.argv[1]], stdout=subprocess.PIPE).stdout.readline()
print(measure_activity()[0], flush=True)
print(*(child.pid for child in child_processes()), sep="\\n", flush=True)
end_children()
print(len(child_processes()), flush=True)
sys.stdin.readline()
"""
LEAVES = """
import subprocess, sys
from pathlib import Path
from gaudi_runtime.process import exit
from gaudi_runtime.contract.report import RuntimeFailureReport
exit.TERMINATION_LOG = Path(sys.argv[1])
print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
if sys.argv[2] != "at once":
    exit.exit_with_failure(RuntimeFailureReport(reason="EngineLost", message=sys.argv[2]))
exit.exit_at_once()
"""
RUNTIME = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print(worker.pid, flush=True)
worker.wait()
"""
WORKER = """
import os, threading
from gaudi_runtime.engines.vllm.workers.driven_worker import watch_runtime
watch_runtime(os.getppid())
print(os.getpid(), flush=True)
threading.Event().wait()
"""


def test_ending_children_also_ends_grandchildren() -> None:
    with python(ENDS, SLEEPER) as process:
        counted, first, second, left = pids(process, 4)
        assert (counted, left) == (2, 0)
        wait_until_gone(first)
        wait_until_gone(second)


def test_failing_process_ends_its_tree_with_termination_message(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    with python(LEAVES, str(message), "A process of vLLM died.") as process:
        [child] = pids(process, 1)
        assert process.wait() == 1
    assert message.read_text() == "EngineLost: A process of vLLM died.\n"
    wait_until_gone(child)


def test_long_termination_message_keeps_its_reason(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    with python(LEAVES, str(message), "\N{GRINNING FACE}" * 2000) as process:
        assert process.wait() == 1
    assert message.read_text().startswith("EngineLost: ")
    assert message.stat().st_size <= 4096


def test_container_without_a_termination_log_still_ends(tmp_path: Path) -> None:
    with python(LEAVES, str(tmp_path / "no folder" / "log"), "Died.") as process:
        assert process.wait() == 1


def test_immediate_exit_ends_all_processes_without_a_failure_message(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    with python(LEAVES, str(message), "at once") as process:
        [child] = pids(process, 1)
        assert process.wait() == 0
    assert not message.exists()
    wait_until_gone(child)


def test_worker_ends_if_the_runtime_is_killed() -> None:
    with python(RUNTIME, WORKER) as runtime:
        worker, itself = pids(runtime, 2)
        assert worker == itself
        assert is_alive(worker)
        runtime.send_signal(signal.SIGKILL)
        runtime.wait()
        wait_until_gone(worker)
