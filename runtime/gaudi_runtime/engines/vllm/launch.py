"""The launch of vLLM's processes: their arguments, the settings of their workers, and the wait for their start."""

import os
import shutil
import socket
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import Meeting
from gaudi_runtime.engines.vllm.memory import figures
from gaudi_runtime.engines.vllm.start_errors import read_failure, why_not_started
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.errors import RuntimeStartError
from gaudi_runtime.http.openai_api.media import MOST_PIXELS, PIXELS_VARIABLE
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.process.children import end_children, measure_activity
from gaudi_runtime.process.worker import in_daemon_thread
from gaudi_runtime.tracing.collector import PROTOCOL_VARIABLE, collector

LOOK_SECONDS = 0.5
ORDERS_VARIABLE = "GAUDI_RUNTIME_WORKER_ORDERS"
HOST_VARIABLE = "VLLM_HOST_IP"
MEDIA_DOMAINS = "--allowed-media-domains"
TRACES = "--otlp-traces-endpoint"
NO_DOMAIN = "NONE.INVALID"
"""A host name that matches no URL.

vLLM takes an empty list as all hosts, and compares the list with the host of a URL in lower case. A name in lower case
could exist: with the search domains of a pod, none.invalid is the Service none of namespace invalid.
"""
WORKERS = {
    "cpu": "gaudi_runtime.engines.vllm.workers.cpu_worker.DrivenCpuWorker",
    "hpu": "gaudi_runtime.engines.vllm.workers.hpu_worker.DrivenHpuWorker",
}

Build = Callable[[Namespace], Any]


def launch(
    arguments: Sequence[str],
    config: RuntimeConfig,
    build: Build,
    progress: Progress,
    look: Callable[[], None] = lambda: None,
    look_seconds: float = LOOK_SECONDS,
) -> tuple[Namespace, Any]:
    """Start vLLM, and return the arguments as vLLM parsed them and the result of `build`; takes a minute or more.

    The workers receive from `config` their execution mode and the handling of cold shapes. `look` is called every
    `look_seconds` and raises if the start cannot succeed. Raises a RuntimeStartError, or what `progress` and `look`
    raise; no process of vLLM is left then.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-start-") as folder:
        failures = Path(folder) / "failure.json"
        orders = Orders(
            execution_mode=config.engine.execution_mode.value,
            failures=str(failures),
            runtime_pid=os.getpid(),
            fail_on_cold_shapes=config.warmup.fail_on_cold_shapes,
        )
        os.environ.update(give_orders(orders) | stand_in_for_git(Path(folder), os.environ))
        os.environ.setdefault(PIXELS_VARIABLE, str(MOST_PIXELS))
        set_trace_protocol()
        parsed = parse_arguments(arguments)
        progress()

        def explained(error: BaseException) -> RuntimeStartError:
            return why_not_started(error, read_failure(failures), partial(figures, config))

        return parsed, _built(lambda: build(parsed), explained, progress, look, look_seconds)


def stand_in_for_git(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Make a git in `folder` that knows no repository, and return the variables for it; empty if git is installed.

    vLLM's plugin calls git for its revision as it starts. It accepts a failure of git, but ends if the program is
    missing.
    """
    path = environment.get("PATH", os.defpath)
    refuses = shutil.which("false", path=path)
    if shutil.which("git", path=path) or not refuses:
        return {}
    # A link and not a script, because files in the folder for temporary files may not be executable.
    folder.joinpath("git").symlink_to(refuses)
    return {"PATH": f"{path}{os.pathsep}{folder}"}


def _built(
    work: Callable[[], Any],
    explained: Callable[[BaseException], RuntimeStartError],
    progress: Progress,
    look: Callable[[], None],
    look_seconds: float,
) -> Any:
    """Return the result of `work`. An error of vLLM is converted by `explained` and raised."""
    starting, before = in_daemon_thread(work, "vllm-start"), None
    try:
        while wait([starting], look_seconds).not_done:
            look()
            # vLLM reports no progress of its start, so activity of its processes counts as progress.
            if (now := measure_activity()) != before:
                before = now
                progress()
        return starting.result()
    except Exception as error:
        # vLLM's core does not end its workers if a start fails, and they hold the memory of the card.
        end_children()
        vllms_own = starting.done() and error is starting.exception()
        raise (explained(error) if vllms_own else error) from error


def engine_arguments(
    config: RuntimeConfig, kv_cache_bytes: int | None, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return all arguments with which vLLM is launched.

    `kv_cache_bytes` is the KV cache of one rank; None if vLLM's plugin divides the memory.
    `environment` may name a collector of traces. Raises ConfigError that names every wrong setting.
    """
    engine = config.engine
    arguments = [*render_engine_options(config).args, f"--worker-cls={WORKERS[engine.device]}"]
    if not any(each.replace("_", "-").startswith(MEDIA_DOMAINS) for each in arguments):
        # vLLM would fetch images from the address in a request, with the pod's access to the cluster's network.
        arguments.append(f"{MEDIA_DOMAINS}={NO_DOMAIN}")
    traces = collector(environment)
    if traces and traces.is_understood and not any(each.startswith(TRACES) for each in arguments):
        arguments.append(f"{TRACES}={traces.endpoint}")
    if kv_cache_bytes is not None:
        arguments.append(f"--kv-cache-memory-bytes={kv_cache_bytes}")
    if engine.device == "cpu" and engine.execution_mode is ExecutionMode.TORCH_COMPILE:
        # vLLM's own graph on a CPU has symbolic sizes; workers/cpu.py compiles the graphs of our sizes.
        arguments.append("--enforce-eager")
    return tuple(arguments)


def meeting_arguments(meeting: Meeting, nodes: int, rank: int) -> tuple[str, ...]:
    """Return the arguments with which vLLM is launched in pod `rank`, to join the processes of `nodes` pods."""
    return (
        f"--nnodes={nodes}",
        f"--node-rank={rank}",
        f"--master-addr={meeting.address}",
        f"--master-port={meeting.port}",
    )


def set_own_address(meeting: Meeting) -> None:
    """Set the variable for the address of vLLM's processes in this pod, before they are launched."""
    # vLLM would guess it by a route to the internet. A value that the user set (`engine.env`) is kept.
    os.environ.setdefault(HOST_VARIABLE, address_towards(meeting))


def address_towards(meeting: Meeting) -> str:
    """Return the address of launched processes: that of this machine on the route to the meeting point."""
    # Connecting a datagram socket sends nothing: it only reads the route from the kernel.
    family = socket.AF_INET6 if ":" in meeting.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(meeting)
        return str(way.getsockname()[0])


def set_trace_protocol(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variable for the protocol of vLLM's traces before its launch, if variables name a collector."""
    if found := collector(environment):
        environment.setdefault(PROTOCOL_VARIABLE, found.protocol)


class Orders(BaseModel):
    """The settings that a worker of vLLM receives at its launch.

    `failures` is the file that the worker writes if it cannot start. The worker ends when process `runtime_pid` ends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution_mode: str
    failures: str
    runtime_pid: int
    fail_on_cold_shapes: bool = False


def give_orders(orders: Orders) -> dict[str, str]:
    """Return the environment that carries the settings of workers from the launch to each of them."""
    # All processes of vLLM inherit a variable, however they are started; vLLM has no argument for this.
    return {ORDERS_VARIABLE: orders.model_dump_json()}


def read_orders(environment: Mapping[str, str] = os.environ) -> Orders:
    """Return the settings that this worker got at its launch. Raises KeyError if the runtime did not start it."""
    return Orders.model_validate_json(environment[ORDERS_VARIABLE])
