"""Start vLLM's processes and wait for them, watching that they move: they tell nothing before they are there.

What the runtime tells its workers (Orders) goes by an environment variable that vLLM's processes inherit.
"""

import os
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from gaudi_runtime.engines.protocol import Progress
from gaudi_runtime.engines.vllm.release import parse_arguments
from gaudi_runtime.engines.vllm.start_errors import read_failure, why_not_started
from gaudi_runtime.process.children import end_children, pulse
from gaudi_runtime.process.worker import in_daemon_thread

LOOK_SECONDS = 0.5

Build = Callable[[Namespace], Any]


def launch(
    arguments: Sequence[str], mode: str, build: Build, progress: Progress, look: Callable[[], None] = lambda: None
) -> tuple[Namespace, Any]:
    """The arguments as vLLM reads them, and what `build` makes of them; takes a minute or more.

    `mode` is the execution mode of the workers. `look` is called twice a second, and raises what makes the start
    hopeless. Raises a RuntimeStartError, or what `progress` and `look` raise; no process of vLLM is left then.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-start-") as folder:
        failures = Path(folder) / "failure.json"
        os.environ.update(give_orders(Orders(execution_mode=mode, failures=str(failures), runtime_pid=os.getpid())))
        parsed = parse_arguments(arguments)
        progress()
        return parsed, _built(lambda: build(parsed), failures, progress, look)


def _built(work: Callable[[], Any], failures: Path, progress: Progress, look: Callable[[], None]) -> Any:
    """`failures` is where workers leave the reason when they cannot start."""
    starting = in_daemon_thread(work, "vllm-start")
    try:
        _wait(starting, progress, look)
        return starting.result()
    except Exception as error:
        end_children()
        raise (why_not_started(error, read_failure(failures)) if error is _error(starting) else error) from error


def _wait(starting: "Future[Any]", progress: Progress, look: Callable[[], None]) -> None:
    """Report progress whenever one of the processes has worked."""
    before = None
    while True:
        try:
            starting.result(LOOK_SECONDS)
            return
        except TimeoutError:
            if starting.done():
                raise
        look()
        if (now := pulse()) != before:
            before = now
            progress()


def _error(starting: "Future[Any]") -> BaseException | None:
    return starting.exception() if starting.done() else None


VARIABLE = "GAUDI_RUNTIME_WORKER_ORDERS"


class Orders(BaseModel):
    """`failures` is a file that a worker writes when it cannot start; `runtime_pid` is whom it must not outlive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution_mode: str
    failures: str
    runtime_pid: int


def give_orders(orders: Orders) -> dict[str, str]:
    """The environment that carries `orders`."""
    return {VARIABLE: orders.model_dump_json()}


def read_orders(environment: Mapping[str, str] = os.environ) -> Orders:
    """The orders of this process. Raises KeyError outside of a process that the runtime started."""
    return Orders.model_validate_json(environment[VARIABLE])
