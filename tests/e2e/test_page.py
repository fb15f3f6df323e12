"""`kubectl gaudi open` as a user runs it. The command prints a local address that serves the page of a real pod."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from demo.install import Installation
from demo.resource import Resource
from gaudi_runtime.contract.bucket_table import BucketState, BucketTable
from gaudi_runtime.contract.ports import BUCKETS_PATH
from localcluster.programs import build
from tests.e2e.specs import SIMULATED


@contextmanager
def opened(installed: Installation, namespace: str, name: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `kubectl gaudi open NAME`. Yield the process and the address that it printed."""
    kubectl = build.kubernetes() / "kubectl"
    path = os.pathsep.join((str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(installed.kubeconfig)}
    command = [str(kubectl), "gaudi", "open", name, "-n", namespace]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            assert process.stdout is not None
            (address,) = re.findall(rf"^(http://127\.0\.0\.1:\d+)/  \(pod {name}-", process.stdout.readline())
            yield process, address
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)  # Ctrl-C, for kubectl and all its child processes


def test_open_prints_the_address_of_the_served_page(
    installed: Installation, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    apply("seen", **SIMULATED)
    wait_ready("seen")
    with (
        opened(installed, namespace, "seen") as (_, address),
        httpx.Client(base_url=address, trust_env=False, timeout=30) as http,
    ):
        assert "<title>Warm-up</title>" in http.get("/").text
        rows = BucketTable.model_validate_json(http.get(BUCKETS_PATH).content).rows
    assert {row.state for row in rows} == {BucketState.EXECUTED}


def test_ended_open_command_stops_forwarding(
    installed: Installation, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    apply("ended", **SIMULATED)
    wait_ready("ended")
    with opened(installed, namespace, "ended") as (process, address):
        assert httpx.get(address, trust_env=False, timeout=30).status_code == httpx.codes.OK
        process.terminate()
        process.wait(30)
        with pytest.raises(httpx.ConnectError):
            httpx.get(address, trust_env=False, timeout=30)
