"""Run the tests that reach a changed function, fastest first, for each mutant in a forked process.

The tests are collected once. Every fork starts after collection, replaces the function, and ends at the first failing
test. A mutant therefore takes the time of its tests, but not the time to start Python.
"""

import functools
import gc
import itertools
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from types import FrameType, FunctionType
from typing import TypedDict

import pytest
from hypothesis import Phase, settings

from tests.mutants import texts
from tests.mutants.changes import Key, Mutant, functions_by_key

SLOWEST_TEST_SECONDS = 1.0
"""Slower tests are left out. They reach most of the code, so their failure does not locate the fault."""
MOST_SECONDS = 60.0
"""The time limit for all tests of one change, slowest last. Nearly every test of the core reaches its state."""
EXAMPLES = 30
"""The examples of a property. More examples would cost minutes for each survivor."""
MEMORY_BYTES = 6 * 2**30


class Verdict(StrEnum):
    """The outcome of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    ALIVE = "alive"
    UNREACHED = "unreached"
    IMPOSSIBLE = "impossible"


ALIVE = (Verdict.ALIVE, Verdict.UNREACHED)


class Measured(TypedDict):
    """The duration and the reached functions of each test in one file. Valid while file and code have this hash."""

    hash: str
    tests: dict[str, tuple[float, list[str]]]


@dataclass
class Fork:
    """A mutant whose tests are running."""

    mutant: Mutant
    pid: int
    deadline: float


@dataclass(eq=False)
class MutantRunner:
    """A pytest plugin that tries mutants instead of running the tests once.

    `paths` are the modules that these tests should cover. `record` is called with each verdict. `memory` is the file
    that stores the measurements of each test file and the tests that detected changes. With `fresh`, all tests are
    measured again.
    """

    paths: Sequence[Path]
    mutants: Sequence[Mutant]
    jobs: int
    record: Callable[[Mutant, Verdict], None]
    memory: Path
    fresh: bool
    known: dict[str, Measured] = field(default_factory=dict)
    reached: dict[str, list[pytest.Item]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    functions: Mapping[Key, list[FunctionType]] = field(default_factory=dict)
    killers: dict[str, list[str]] = field(default_factory=dict)
    failed: str | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests and try the mutants. This method replaces pytest's own loop."""
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        gc.unfreeze()  # Functions frozen by an earlier runner would not be found and would count as unreached.
        self.functions = functions_by_key(self.paths)
        # Compare the type itself. isinstance() would read `__class__` of every object, and some objects of torch emit a
        # warning when it is read.
        self.caches = [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]
        self.caches = [each for each in self.caches if each.__module__.startswith("gaudi_")]
        for item in session.items:
            few_examples(item)
        gc.collect()
        gc.freeze()
        if self.memory.exists():
            self.known, self.killers = json.loads(self.memory.read_text())
        self._measure(session.items)
        self._remember()
        self._try_all()
        self._remember()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the first failure."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def _measure(self, items: Sequence[pytest.Item]) -> None:
        """Measure the duration and the reached functions of each test. Raises pytest.UsageError if a test fails."""
        # A test that fails because the code has changed since the last run would count as noticing every change.
        code = b"".join(path.read_bytes() for path in self.paths)
        hashes = {item.path: sha256(code + item.path.read_bytes()).hexdigest() for item in items}
        for path, digest in hashes.items():
            file = str(path)
            if self.fresh or file not in self.known or self.known[file]["hash"] != digest:
                self.known[file] = Measured(hash=digest, tests={})
        self._run([item for item in items if item.nodeid not in self.known[str(item.path)]["tests"]])
        for item in items:
            self.seconds[item.nodeid], functions = self.known[str(item.path)]["tests"][item.nodeid]
            for function in functions:
                self.reached.setdefault(function, []).append(item)

    def _run(self, items: Sequence[pytest.Item]) -> None:
        if not items:
            return
        read, pid = self._fork(lambda write: self._watch(items, write))
        with os.fdopen(read) as stream:
            lines = [line.rstrip("\n").split("\t") for line in stream]
        os.waitpid(pid, 0)
        if not lines or lines[-1][0] != "end":
            raise pytest.UsageError(f"A test fails without any change: {lines[-1][0] if lines else items[0].nodeid}")
        for item, (_, seconds, *functions) in zip(items, lines, strict=False):
            self.known[str(item.path)]["tests"][item.nodeid] = float(seconds), functions

    def _remember(self) -> None:
        self.memory.write_text(json.dumps([self.known, self.killers]))

    def _watch(self, items: Sequence[pytest.Item], write: int) -> None:
        codes = {id(each.__code__): reach(key) for key, functions in self.functions.items() for each in functions}
        seen: set[str] = set()

        def profile(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and (function := codes.get(id(frame.f_code))):
                seen.add(function)

        threading.setprofile(profile)
        for item, after in _with_next(items):
            for cache in self.caches:
                cache.cache_clear()
            seen.clear()
            started = time.process_time()
            sys.setprofile(profile)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            sys.setprofile(None)
            _write(write, "\t".join((item.nodeid, f"{time.process_time() - started:.4f}", *sorted(seen))) + "\n")
            if self.failed:
                return
        _write(write, "end\n")

    def _try_all(self) -> None:
        waiting, running = list(reversed(self.mutants)), dict[int, Fork]()
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant = waiting.pop()
                if tests := self._tests(mutant):
                    read, pid = self._fork(lambda write, mutant=mutant, tests=tests: self._try(mutant, tests, write))
                    running[read] = Fork(mutant, pid, time.monotonic() + 30 + 20 * self._estimate(tests))
                else:
                    self.record(mutant, Verdict.UNREACHED)
            for read in select.select(list(running), [], [], 1)[0]:
                self._note(running.pop(read), read)
            for read, fork in [each for each in running.items() if each[1].deadline < time.monotonic()]:
                os.killpg(fork.pid, signal.SIGKILL)
                self._note(running.pop(read), read)

    def _note(self, fork: Fork, read: int) -> None:
        with os.fdopen(read) as stream:
            output = stream.read()
        with suppress(ProcessLookupError):
            os.killpg(fork.pid, signal.SIGKILL)  # Stop processes that a test has left running.
        os.waitpid(fork.pid, 0)
        # A fork that ends without output exceeded a limit.
        kind, _, killer = output.partition("\t")
        verdict = Verdict(kind) if kind else Verdict.TIMED_OUT
        if verdict is Verdict.KILLED:
            killers = self.killers.setdefault(reach(fork.mutant.key), [])
            killers[:] = [killer, *(each for each in killers if each != killer)]
        self.record(fork.mutant, verdict)

    def _tests(self, mutant: Mutant) -> list[pytest.Item]:
        """Return the tests of a mutant: first those that noticed earlier changes of the function, then the fastest."""
        function = reach(mutant.key)
        killers = {name: place for place, name in enumerate(self.killers.get(function, [])[:20])}
        tests = sorted(
            (item for item in self.reached.get(function, []) if self.seconds[item.nodeid] <= SLOWEST_TEST_SECONDS),
            key=lambda item: (killers.get(item.nodeid, len(killers)), self.seconds[item.nodeid]),
        )
        total = itertools.accumulate(self.seconds[item.nodeid] for item in tests)
        return [item for item, seconds in zip(tests, total, strict=True) if seconds <= MOST_SECONDS]

    def _estimate(self, tests: Sequence[pytest.Item]) -> float:
        return sum(self.seconds[item.nodeid] for item in tests)

    def _try(self, mutant: Mutant, tests: Sequence[pytest.Item], write: int) -> None:
        limit = int(5 + 5 * self._estimate(tests))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            mutant.apply(self.functions)
        except (SyntaxError, ValueError):
            _write(write, Verdict.IMPOSSIBLE)
            return
        texts.install()
        for cache in self.caches:
            cache.cache_clear()
        for item, after in _with_next(tests):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                _write(write, f"{Verdict.KILLED}\t{self.failed}")
                return
            if mutant.depends_on_strings and texts.passed.no_strings:
                break
        is_none = mutant.depends_on_strings and not texts.passed.strings
        _write(write, Verdict.IMPOSSIBLE if is_none else Verdict.ALIVE)

    def _fork(self, work: Callable[[int], None]) -> tuple[int, int]:
        """Call `work` in a forked process group. Return the read end of a pipe and the process id."""
        read, write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write)
            with suppress(PermissionError, ProcessLookupError):
                os.setpgid(pid, pid)
            return read, pid
        try:
            os.setpgid(0, 0)
            silence = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(silence, number)
            work(write)
        finally:
            os._exit(0)


def reach(key: Key) -> str:
    """Return the name of a function in the measurements. The name has no line number, because edits move lines."""
    return f"{key[0]}::{key[1]}"


def few_examples(item: pytest.Item) -> None:
    """Limit a property test to the same few examples in each fork, without shrinking."""
    test = getattr(item, "obj", None)
    known = getattr(test, "_hypothesis_internal_use_settings", None)
    if known is not None:
        phases = (Phase.explicit, Phase.generate)
        examples = min(EXAMPLES, known.max_examples)
        test = getattr(test, "__func__", test)
        test._hypothesis_internal_use_settings = settings(
            known, max_examples=examples, derandomize=True, database=None, phases=phases
        )


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    yield from zip(items, [*items[1:], None], strict=True)


def _write(write: int, text: str) -> None:
    os.write(write, text.encode())
