"""The comparison in a separate process: the same advice, with the lowest priority and with resource limits."""

import os
import subprocess
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.learning import comparison_process
from gaudi_runtime.learning.comparison import advise
from gaudi_runtime.learning.comparison_process import CPU_SECONDS, MEMORY_BYTES, ComparisonFailed, compare_in_process
from tests.unit.runtime.learning.questions import question
from tests.unit.runtime.runtime_process import wait_until


async def test_process_returns_the_same_advice_as_the_function() -> None:
    assert await compare_in_process(question(), niceness=0) == advise(question())
    assert await compare_in_process(question(1.0), niceness=0) is None


def test_process_sets_its_limits_before_it_reads_input() -> None:
    started = comparison_process.start_comparison()
    try:
        limits = Path(f"/proc/{started.pid}/limits")
        wait_until(lambda: f"Max address space         {MEMORY_BYTES} " in limits.read_text())
        assert f"Max cpu time              {CPU_SECONDS} " in limits.read_text()
        assert os.getpriority(os.PRIO_PROCESS, started.pid) == 19
        assert os.sched_getscheduler(started.pid) == os.SCHED_IDLE
        assert Path(f"/proc/{started.pid}/oom_score_adj").read_text() == "1000\n"
    finally:
        started.kill()
        started.communicate()


def test_environment_of_the_process_contains_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    started = comparison_process.start_comparison()
    try:
        assert b"secret" not in Path(f"/proc/{started.pid}/environ").read_bytes()
    finally:
        started.kill()
        started.communicate()


async def test_process_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    start = comparison_process.start_comparison
    begun: list[subprocess.Popen[bytes]] = []

    def kept(niceness: int) -> subprocess.Popen[bytes]:
        begun.append(start(niceness))
        return begun[-1]

    monkeypatch.setattr(comparison_process, "start_comparison", kept)
    with pytest.raises(ComparisonFailed, match="more than"):
        await compare_in_process(question(), seconds=0.01)
    assert begun[0].wait(30) == -9


async def test_impossible_plan_fails_with_its_message() -> None:
    policy = BucketPolicy(strategy=Strategy.FILE, file="(1, 1, 8)")
    with pytest.raises(ComparisonFailed, match="the bucket file has no prompt bucket"):
        await compare_in_process(question(policy=policy), niceness=0)
