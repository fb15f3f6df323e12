"""Start vLLM's processes and wait for them, watching that they move: they tell nothing before they are there."""

import threading
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from gaudi_runtime.child_processes import end_children, pulse
from gaudi_runtime.engines.protocol import Progress
from gaudi_runtime.engines.vllm.release import build_engine, import_server
from gaudi_runtime.engines.vllm.start_errors import why_not_started
from gaudi_runtime.engines.vllm.start_failure import read_failure

LOOK_SECONDS = 0.5


def launch(arguments: Namespace, failures: Path, progress: Progress) -> Any:
    """vLLM's AsyncLLM, loaded and with its KV cache; takes a minute or more.

    `failures` is where workers leave the reason when they cannot start. Raises a RuntimeStartError, or what `progress`
    raises; no process of vLLM is left then.
    """
    starting = _in_thread(lambda: build_engine(arguments))
    try:
        _wait(starting, progress)
        import_server()
        return starting.result()
    except Exception as error:
        end_children()
        raise (why_not_started(error, read_failure(failures)) if error is _error(starting) else error) from error


def _wait(starting: "Future[Any]", progress: Progress) -> None:
    """Report progress whenever one of the processes has worked."""
    before = None
    while True:
        try:
            starting.result(LOOK_SECONDS)
            return
        except TimeoutError:
            if starting.done():
                raise
        if (now := pulse()) != before:
            before = now
            progress()


def _error(starting: "Future[Any]") -> BaseException | None:
    return starting.exception() if starting.done() else None


def _in_thread(work: Callable[[], Any]) -> "Future[Any]":
    """A daemon thread: a start cannot be cancelled, and must not keep the process from ending."""
    outcome: Future[Any] = Future()

    def body() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # handed on to who waits
            outcome.set_exception(error)

    threading.Thread(target=body, name="vllm-start", daemon=True).start()
    return outcome
