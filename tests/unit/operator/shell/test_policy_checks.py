"""Checks of bucket policies: namespaces take turns, results are cached, and all checks together have a bound."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from gaudi_operator.clock import SYSTEM
from gaudi_operator.core.admission.engine_settings import engine_policy_check
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck, BucketPolicyCheckPending
from gaudi_operator.shell import policy_checks
from gaudi_operator.shell.policy_checks import PolicyCheckQueue, PolicyChecks, QueuedPolicyCheck
from gaudi_operator.shell.watching.store import StoreKey
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.resources import inference

CHECK = engine_policy_check(inference())
IMPOSSIBLE = engine_policy_check(inference(bucketing={"strategy": "Linear", "prompt": {"query": {"min": 0}}}))
KEY = StoreKey("models", "tiny")


@dataclass(frozen=True)
class Counted(BucketPolicyCheck):
    """A check that records its runs."""

    runs: list[str] = field(default_factory=list)
    act: Callable[[], None] = lambda: None

    def run(self) -> Problem | None:
        """Record the run, and act."""
        self.runs.append(self.key)
        self.act()
        return None


def counted(key: str, runs: list[str], act: Callable[[], None] = lambda: None) -> Counted:
    return Counted(CHECK.policy, CHECK.limits, 1, refuses_gaps=True, key=key, runs=runs, act=act)


async def run_check(checks: PolicyChecks, check: BucketPolicyCheck, key: StoreKey = KEY) -> StoreKey:
    """Queue a check, and return the key with which the resource was woken."""
    woken = asyncio.get_running_loop().create_future()
    checks.queue_check(key, check, woken.set_result)
    async with asyncio.timeout(30):
        return StoreKey(*await woken)


async def test_unknown_result_is_pending() -> None:
    with pytest.raises(BucketPolicyCheckPending) as pending:
        PolicyChecks(SYSTEM).find_result(CHECK)
    assert pending.value.check is CHECK


@pytest.mark.parametrize(("check", "reason"), [(CHECK, None), (IMPOSSIBLE, "PlanImpossible")])
async def test_checked_policy_wakes_its_resource(check: BucketPolicyCheck, reason: str | None) -> None:
    async with PolicyChecks(SYSTEM) as checks:
        assert await run_check(checks, check) == KEY
        found = checks.find_result(check)
        assert (found.reason if found else None) == reason


async def test_equal_policies_are_checked_once() -> None:
    runs: list[str] = []
    async with PolicyChecks(SYSTEM) as checks:
        await run_check(checks, counted("a", runs))
        await run_check(checks, counted("a", runs), StoreKey("others", "tiny"))
    assert runs == ["a"]


async def test_defect_of_the_check_refuses_no_policy() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async with PolicyChecks(SYSTEM) as checks:
        check = counted("a", [], fail)
        await run_check(checks, check)
        assert checks.find_result(check) is None


async def test_event_loop_runs_during_a_check() -> None:
    def work() -> None:
        for _ in range(3_000_000):
            pass

    turns = 0
    async with PolicyChecks(SYSTEM) as checks:
        task = asyncio.ensure_future(run_check(checks, counted("a", [], work)))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns > 10


async def test_checks_use_at_most_their_share_of_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check takes 2 s of the test's clock, so 6 s must pass before the next check begins."""
    clock, slept = [0.0], list[float]()

    def work() -> None:
        clock[0] += 2.0

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    checks = PolicyChecks(replace(SYSTEM, monotonic=lambda: clock[0]))
    monkeypatch.setattr(policy_checks.asyncio, "sleep", sleep)
    async with checks:
        await run_check(checks, counted("a", [], work))
        await run_check(checks, counted("b", [], work))
    assert slept[0] == 6.0


async def test_number_of_results_is_limited() -> None:
    async with PolicyChecks(SYSTEM, max_results=1) as checks:
        first = counted("a", [])
        await run_check(checks, first)
        await run_check(checks, counted("b", []))
        with pytest.raises(BucketPolicyCheckPending):
            checks.find_result(first)


def queued(namespace: str, name: str, key: str) -> QueuedPolicyCheck:
    return QueuedPolicyCheck(StoreKey(namespace, name), counted(key, []), lambda _: None)


def test_namespaces_take_turns() -> None:
    queue = PolicyCheckQueue()
    for number in range(3):
        queue.add(queued("many", f"m{number}", f"many {number}"))
    queue.add(queued("one", "o", "one"))
    order = [item.check.key for item in iter(queue.pop, None)]
    assert order == ["many 0", "one", "many 1", "many 2"]


def test_newer_check_replaces_the_waiting_one() -> None:
    queue = PolicyCheckQueue()
    queue.add(queued("a", "x", "old"))
    queue.add(queued("a", "x", "new"))
    assert [item.check.key for item in iter(queue.pop, None)] == ["new"]
