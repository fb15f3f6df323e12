"""`kubectl gaudi open` as a user calls it: an address of this machine at which the page of a real pod answers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from demo.install import Installed
from demo.resource import Resource
from gaudi_runtime.contract.bucket_table import BucketState, BucketTable
from gaudi_runtime.contract.ports import BUCKETS_PATH
from localcluster import build
from tests.e2e.specs import SIMULATED


def test_open_prints_an_address_at_which_the_page_answers(
    installed: Installed, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    apply("seen", **SIMULATED)
    wait_ready("seen")
    kubectl = build.kubernetes() / "kubectl"
    path = os.pathsep.join((str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(installed.kubeconfig)}
    command = [str(kubectl), "gaudi", "open", "seen", "-n", namespace]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0) as opened:
        try:
            assert opened.stdout is not None
            line = opened.stdout.readline()
            (address,) = re.findall(r"^(http://127\.0\.0\.1:\d+)/  \(pod seen-", line)
            with httpx.Client(base_url=address, trust_env=False, timeout=30) as http:
                assert "<title>Warm-up</title>" in http.get("/").text
                rows = BucketTable.model_validate_json(http.get(BUCKETS_PATH).content).rows
            assert {row.state for row in rows} == {BucketState.CAPTURED}
        finally:
            os.killpg(opened.pid, signal.SIGINT)  # Ctrl-C, to kubectl and all that it has started
