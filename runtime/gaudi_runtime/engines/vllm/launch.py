"""The launch of vLLM's processes: their arguments, the settings of the workers, and the wait for the start."""

import logging
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
from gaudi_runtime.engine_protocol.group import LeaderEndpoint
from gaudi_runtime.engines.vllm.memory import describe_memory
from gaudi_runtime.engines.vllm.start_errors import explain_start_error, read_failure
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.errors import RuntimeStartError
from gaudi_runtime.http.openai_api.media import MOST_PIXELS, PIXELS_VARIABLE
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.process.children import end_children, measure_activity
from gaudi_runtime.process.worker import start_in_daemon_thread
from gaudi_runtime.trace_collector import GRPC, HTTP, PROTOCOL_VARIABLE, read_trace_collector

log = logging.getLogger(__name__)

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
    check: Callable[[], None] = lambda: None,
    poll_seconds: float = LOOK_SECONDS,
) -> tuple[Namespace, Any]:
    """Start vLLM and return its parsed arguments and the result of `build`. The start takes a minute or more.

    The workers get their execution mode and the handling of cold shapes from `config`. `check` is called every
    `poll_seconds` and raises an error if the start cannot succeed. Raises a RuntimeStartError, or any error of
    `progress` and `check`. After an error, no process of vLLM is left.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-start-") as folder:
        failure_file = Path(folder) / "failure.json"
        settings = WorkerSettings(
            execution_mode=config.engine.execution_mode.value,
            failures=str(failure_file),
            runtime_pid=os.getpid(),
            fail_on_cold_shapes=config.warmup.fail_on_cold_shapes,
        )
        os.environ.update(worker_environment(settings) | create_git_stub(Path(folder), os.environ))
        os.environ.setdefault(PIXELS_VARIABLE, str(MOST_PIXELS))
        set_trace_protocol()
        parsed = parse_arguments(arguments)
        progress()

        def explain_error(error: BaseException) -> RuntimeStartError:
            return explain_start_error(error, read_failure(failure_file), partial(describe_memory, config))

        return parsed, _build_in_thread(lambda: build(parsed), explain_error, progress, check, poll_seconds)


def create_git_stub(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Create a `git` in `folder` that always fails, and return the variables to use it; empty if git is installed.

    vLLM's plugin calls git for its revision during its start. The plugin accepts a failure of git, but exits if the
    program is missing.
    """
    path = environment.get("PATH", os.defpath)
    false_path = shutil.which("false", path=path)
    if shutil.which("git", path=path) or not false_path:
        return {}
    # Create a link and not a script, because the folder for temporary files may be mounted without permission to
    # execute files.
    folder.joinpath("git").symlink_to(false_path)
    return {"PATH": f"{path}{os.pathsep}{folder}"}


def _build_in_thread(
    work: Callable[[], Any],
    explain_error: Callable[[BaseException], RuntimeStartError],
    progress: Progress,
    check: Callable[[], None],
    poll_seconds: float,
) -> Any:
    """Return the result of `work`. Errors of vLLM are converted with `explain_error` and raised."""
    future, last_activity = start_in_daemon_thread(work, "vllm-start"), None
    try:
        while wait([future], poll_seconds).not_done:
            check()
            # vLLM does not report the progress of its start. Therefore count any activity of its processes as progress.
            if (activity := measure_activity()) != last_activity:
                last_activity = activity
                progress()
        return future.result()
    except Exception as error:
        # If a start fails, vLLM's core does not end its workers, and the workers keep the card's memory allocated.
        end_children()
        from_vllm = future.done() and error is future.exception()
        raise (explain_error(error) if from_vllm else error) from error


def engine_arguments(
    config: RuntimeConfig, kv_cache_bytes: int | None, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return all arguments that vLLM is launched with.

    `kv_cache_bytes` is the KV cache size of one rank; None if vLLM's plugin divides the memory. `environment` may set a
    trace collector. Raises ConfigError, which names every wrong setting.
    """
    engine = config.engine
    arguments = [*render_engine_options(config).args, f"--worker-cls={WORKERS[engine.device]}"]
    if not any(argument.replace("_", "-").startswith(MEDIA_DOMAINS) for argument in arguments):
        # By default, vLLM fetches images from any address in a request. A client could then reach services in the
        # cluster network through the pod.
        arguments.append(f"{MEDIA_DOMAINS}={NO_DOMAIN}")
    collector = read_trace_collector(environment)
    if collector and collector.is_supported and not any(argument.startswith(TRACES) for argument in arguments):
        arguments.append(f"{TRACES}={collector.endpoint}")
    if kv_cache_bytes is not None:
        arguments.append(f"--kv-cache-memory-bytes={kv_cache_bytes}")
    if engine.device == "cpu" and engine.execution_mode is ExecutionMode.TORCH_COMPILE:
        # vLLM's own graph on a CPU has symbolic sizes. We disable this graph, and workers/cpu.py compiles one graph for
        # each size of the plan.
        arguments.append("--enforce-eager")
    return tuple(arguments)


def node_arguments(leader: LeaderEndpoint, nodes: int, rank: int) -> tuple[str, ...]:
    """Return the arguments to launch vLLM in pod `rank`, so that it joins the processes of `nodes` pods."""
    return (
        f"--nnodes={nodes}",
        f"--node-rank={rank}",
        f"--master-addr={leader.address}",
        f"--master-port={leader.port}",
    )


def set_host_ip(leader: LeaderEndpoint) -> None:
    """Set the variable for the address of vLLM's processes in this pod. Call this function before the launch."""
    # vLLM would choose the address by a route to the internet. A value that the user set in `engine.env` is kept.
    os.environ.setdefault(HOST_VARIABLE, source_address(leader))


def source_address(leader: LeaderEndpoint) -> str:
    """Return the address of this machine's network interface on the route to `leader`."""
    # `connect` on a datagram socket sends no packet. The kernel only selects the route and the local address.
    family = socket.AF_INET6 if ":" in leader.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect(leader)
        return str(sock.getsockname()[0])


def set_trace_protocol(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the protocol of vLLM's traces if variables configure a collector. Call this function before the launch."""
    if collector := read_trace_collector(environment):
        environment.setdefault(PROTOCOL_VARIABLE, collector.protocol)
        if not collector.is_supported:
            log.warning(
                "Traces are not sent: the OTLP protocol is %s, but must be %s or %s.", collector.protocol, HTTP, GRPC
            )


class WorkerSettings(BaseModel):
    """The settings that a worker of vLLM receives at its launch.

    `failures` is the file to which the worker writes an error of its start. The worker exits when process `runtime_pid`
    ends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution_mode: str
    failures: str
    runtime_pid: int
    fail_on_cold_shapes: bool = False


def worker_environment(settings: WorkerSettings) -> dict[str, str]:
    """Return the environment variable that passes the settings to all workers."""
    # Use an environment variable, because all processes of vLLM inherit it, no matter how vLLM starts them. vLLM has no
    # argument for these settings.
    return {ORDERS_VARIABLE: settings.model_dump_json()}


def read_worker_settings(environment: Mapping[str, str] = os.environ) -> WorkerSettings:
    """Return the settings of this worker. Raises KeyError if the runtime did not start the worker."""
    return WorkerSettings.model_validate_json(environment[ORDERS_VARIABLE])
