"""`kubectl port-forward` for the duration of a test."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from demo.install import Installation
from localcluster import tools


@contextmanager
def port_forward(installed: Installation, namespace: str, target: str, port: int) -> Iterator[int]:
    """Forward a free local port to `target` (svc/NAME or pod/NAME), and yield the local port."""
    command = [str(tools().kubectl), "port-forward", "--namespace", namespace, target, f":{port}"]
    environment = {**os.environ, "KUBECONFIG": str(installed.kubeconfig)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            found = re.search(r":(\d+) ->", process.stdout.readline())
            assert found, f"port-forward to {target} did not start"
            yield int(found[1])
        finally:
            process.terminate()
