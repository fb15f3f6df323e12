"""The checks of new bucket policies, one at a time in a thread, with a bound for all tenants together.

A reconcile whose decision needs a result ends after its gates are written. The check waits in a queue, and its result
wakes the resource. Namespaces take turns, so a tenant with many expensive policies delays other tenants by one check.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Self

from gaudi_operator.clock import Clock
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck, BucketPolicyCheckPending
from gaudi_operator.shell.watching.store import StoreKey
from gaudi_runtime.errors import Problem

MOST_RESULTS = 4096
"""The maximum number of cached results, which take at most 10 MiB. The result of a stored revision is not needed."""

MOST_SHARE = 0.25
"""The maximum share of one core for the checks of all tenants together."""

log = logging.getLogger(__name__)


class QueuedPolicyCheck(NamedTuple):
    """A check in the queue: the resource, the check, and the callback after the check."""

    key: StoreKey
    check: BucketPolicyCheck
    wake: Callable[[StoreKey], None]


class PolicyCheckQueue:
    """The queue of checks. Namespaces take turns, and the queue has at most one check per resource."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[StoreKey, QueuedPolicyCheck]] = OrderedDict()

    def add(self, queued: QueuedPolicyCheck) -> None:
        """Queue a check, which replaces an older check of the same resource."""
        self._waiting.setdefault(queued.key.namespace, OrderedDict())[queued.key] = queued

    def pop(self) -> QueuedPolicyCheck | None:
        """Remove and return the oldest check of the next namespace; None if the queue is empty."""
        if not self._waiting:
            return None
        namespace, checks = self._waiting.popitem(last=False)
        _, queued = checks.popitem(last=False)
        if checks:
            self._waiting[namespace] = checks
        return queued


class PolicyChecks:
    """The runner of policy checks. Use as an async context manager."""

    def __init__(self, clock: Clock, max_results: int = MOST_RESULTS) -> None:
        """Create a runner without results."""
        self._clock, self._max_results = clock, max_results
        self._results: OrderedDict[str, Problem | None] = OrderedDict()
        self._queue = PolicyCheckQueue()
        self._check_added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start to run checks."""
        self._task = asyncio.create_task(self._run_checks(), name="policy checks")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, without waiting for a running check."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def find_result(self, check: BucketPolicyCheck) -> Problem | None:
        """Return the result of a check. Raises BucketPolicyCheckPending if there is no result yet."""
        if check.key not in self._results:
            raise BucketPolicyCheckPending(check)
        self._results.move_to_end(check.key)
        return self._results[check.key]

    def queue_check(self, key: StoreKey, check: BucketPolicyCheck, wake: Callable[[StoreKey], None]) -> None:
        """Queue the check of a resource. `wake` is called with `key` after the check."""
        self._queue.add(QueuedPolicyCheck(key, check, wake))
        self._check_added.set()

    async def _run_checks(self) -> None:
        while True:
            self._check_added.clear()
            queued = self._queue.pop()
            if queued is None:
                await self._check_added.wait()
                continue
            started = self._clock.monotonic()
            if queued.check.key not in self._results:
                await self._run_check(queued)
            queued.wake(queued.key)
            await asyncio.sleep((self._clock.monotonic() - started) * (1 / MOST_SHARE - 1))

    async def _run_check(self, queued: QueuedPolicyCheck) -> None:
        try:
            problem = await asyncio.to_thread(queued.check.run)
        except Exception:
            # The pod checks the policy again, so a defect of this check must not refuse the spec.
            log.exception(
                "The check of a bucket policy failed because of a defect of the operator.",
                extra={"resource": f"{queued.key.namespace}/{queued.key.name}"},
            )
            problem = None
        self._results[queued.check.key] = problem
        if len(self._results) > self._max_results:
            self._results.popitem(last=False)
