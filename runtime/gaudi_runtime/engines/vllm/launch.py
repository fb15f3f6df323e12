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
"""No host matches it: for vLLM an empty list means all, and it compares with the host of a URL in lower case.

In lower case the name could exist: with the search domains of a pod, none.invalid is Service none of namespace invalid.
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
    """The arguments as vLLM reads them, and what `build` makes of them; takes a minute or more.

    Of `config` the workers are told their execution mode and what to do with cold shapes. `look` is called every
    `look_seconds`, and raises what makes the start hopeless. Raises a RuntimeStartError, or what `progress` and `look`
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
        tell_protocol()
        parsed = parse_arguments(arguments)
        progress()

        def explained(error: BaseException) -> RuntimeStartError:
            return why_not_started(error, read_failure(failures), partial(figures, config))

        return parsed, _built(lambda: build(parsed), explained, progress, look, look_seconds)


def stand_in_for_git(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which processes find a git that knows no repository, made in `folder`; none where there is one.

    vLLM's plugin asks git for its revision as it starts, lives with a refusal, and ends where there is no such program.
    """
    path = environment.get("PATH", os.defpath)
    refuses = shutil.which("false", path=path)
    if shutil.which("git", path=path) or not refuses:
        return {}
    # A link and no script: nothing may be executed from where temporary files are.
    folder.joinpath("git").symlink_to(refuses)
    return {"PATH": f"{path}{os.pathsep}{folder}"}


def _built(
    work: Callable[[], Any],
    explained: Callable[[BaseException], RuntimeStartError],
    progress: Progress,
    look: Callable[[], None],
    look_seconds: float,
) -> Any:
    """What `work` makes; an error of vLLM's own is raised `explained`."""
    starting, before = in_daemon_thread(work, "vllm-start"), None
    try:
        while wait([starting], look_seconds).not_done:
            look()
            # vLLM tells nothing before it is there, so what its processes do is all that shows progress.
            if (now := measure_activity()) != before:
                before = now
                progress()
        return starting.result()
    except Exception as error:
        # vLLM's core leaves its workers behind when a start fails, and they hold the memory of the card.
        end_children()
        vllms_own = starting.done() and error is starting.exception()
        raise (explained(error) if vllms_own else error) from error


def engine_arguments(
    config: RuntimeConfig, kv_cache_bytes: int | None, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """All arguments. `kv_cache_bytes` is the KV cache of one rank, None where vLLM's plugin divides the memory.

    `environment` may name a collector of traces.
    Raises ConfigError naming every wrong setting.
    """
    engine = config.engine
    arguments = [*render_engine_options(config).args, f"--worker-cls={WORKERS[engine.device]}"]
    if not any(each.replace("_", "-").startswith(MEDIA_DOMAINS) for each in arguments):
        # vLLM would fetch an image from wherever a request says, with the pod's own reach into the cluster's network.
        arguments.append(f"{MEDIA_DOMAINS}={NO_DOMAIN}")
    traces = collector(environment)
    if traces and traces.is_understood and not any(each.startswith(TRACES) for each in arguments):
        arguments.append(f"{TRACES}={traces.endpoint}")
    if kv_cache_bytes is not None:
        arguments.append(f"--kv-cache-memory-bytes={kv_cache_bytes}")
    if engine.device == "cpu" and engine.execution_mode is ExecutionMode.TORCH_COMPILE:
        # vLLM's own graph of a CPU has symbolic sizes; ours are compiled by us (workers/cpu.py).
        arguments.append("--enforce-eager")
    return tuple(arguments)


def meeting_arguments(meeting: Meeting, nodes: int, rank: int) -> tuple[str, ...]:
    """What joins the processes of pod `rank` to those of all `nodes` pods, by vLLM's own launcher."""
    return (
        f"--nnodes={nodes}",
        f"--node-rank={rank}",
        f"--master-addr={meeting.address}",
        f"--master-port={meeting.port}",
    )


def tell_own_address(meeting: Meeting) -> None:
    """Set vLLM's variable for the address by which its processes of this pod are reached."""
    # vLLM would guess by a route to the internet. Whoever set it before knows better (`engine.env`).
    os.environ.setdefault(HOST_VARIABLE, address_towards(meeting))


def address_towards(meeting: Meeting) -> str:
    """This machine's address on the way to where the processes meet."""
    # Nothing is sent: to connect a datagram socket only asks the kernel for the route.
    family = socket.AF_INET6 if ":" in meeting.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(meeting)
        return str(way.getsockname()[0])


def tell_protocol(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variable by which vLLM chooses the protocol of traces, where those of OpenTelemetry name a collector."""
    if found := collector(environment):
        environment.setdefault(PROTOCOL_VARIABLE, found.protocol)


class Orders(BaseModel):
    """`failures` is a file that a worker writes when it cannot start; `runtime_pid` is whom it must not outlive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution_mode: str
    failures: str
    runtime_pid: int
    fail_on_cold_shapes: bool = False


def give_orders(orders: Orders) -> dict[str, str]:
    """The environment that carries `orders`."""
    # By a variable, which vLLM's processes inherit however it starts them; of its arguments none is free for us.
    return {ORDERS_VARIABLE: orders.model_dump_json()}


def read_orders(environment: Mapping[str, str] = os.environ) -> Orders:
    """The orders of this process. Raises KeyError outside of a process that the runtime started."""
    return Orders.model_validate_json(environment[ORDERS_VARIABLE])
