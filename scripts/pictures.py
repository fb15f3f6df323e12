"""Makes docs/pictures: the output of commands and the warm-up page for a small fleet on a real cluster.

`make pictures` finds or starts a cluster as `make demo` does, installs the operator, applies two models, and waits
until each is in its state. The engine is the simulation, with compile times, graphs and memory of the described card
and model. Cluster, operator, pods, gates and output are real. The command runs in a terminal of a fixed size, and its
output is converted to SVG. Chromium takes the picture of the page.
"""

import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from demo import install
from demo.install import Installation
from demo.plan import merge
from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.contract.ports import STATUS_PORT_NAME
from localcluster import remove_cluster
from localcluster.programs import build
from localcluster.programs.debian import require
from localcluster.progress import step

CLUSTER, NAMESPACE = "pictures", "models"
FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
CHROMIUM = {"chromium": "/usr/bin/chromium"}
PERIOD_SECONDS = 0.5
WAIT_SECONDS = 300.0
COLUMNS = 100
"""The width of the terminal in characters."""

Manifest = dict[str, Any]

DESCRIBED: Manifest = {
    "replicas": 2,
    "model": {
        "source": {"ociImage": {"reference": install.MODEL_IMAGE}},
        "servedNames": ["llama"],
        "maxModelLen": 2048,
    },
    "accelerator": {"generation": "none", "deviceMemory": "94.62Gi"},
    "engine": {
        "name": "sim",
        "executionMode": "HpuGraphs",
        "blockSize": 128,
        "maxNumSeqs": 8,
        "maxNumPrefillSeqs": 4,
        "maxNumBatchedTokens": 4096,
        "deviceMemoryUtilizationPercent": 50,
        "settings": {
            "VLLM_CONTIGUOUS_PA": "false",
            "VLLM_GRAPH_PROMPT_RATIO": "0.5",
            "card": "gaudi2",
            "model": "meta-llama/Llama-3.1-8B",
            "timeScale": "0.02",
        },
    },
    "bucketing": {
        "strategy": "Linear",
        "prompt": {"batchSize": {"min": 1, "step": 32, "max": 4}, "query": {"min": 128, "step": 128, "max": 1024}},
        "decode": {"batchSize": {"min": 1, "step": 8, "max": 8}, "blocks": {"min": 16, "step": 16, "max": 128}},
        "gaps": "Allow",
    },
    "warmup": {"graphMemoryPercent": 40},
    "readiness": {"minCapturedPromptPercent": 50, "minCapturedDecodePercent": 100},
}
"""Llama 3.1 8B on one Gaudi 2, as in examples/reference-llama-3.1-8b-gaudi2-sim.yaml."""

SLOW = {"engine": {"settings": {"timeScale": "2"}}}
"""A revision that warms up at half the speed of the card."""


def manifest(name: str, spec: Manifest) -> str:
    """Return the manifest of a GaudiInference: DESCRIBED with `spec` merged into it."""
    kind = {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "metadata": {"name": name}}
    return json.dumps({**kind, "spec": merge(DESCRIBED, spec)})


class Fleet:
    """The models of the pictures on a cluster."""

    def __init__(self, installed: Installation) -> None:
        """Create the fleet without applying a model."""
        self._installed = installed

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace of the models."""
        return self._installed.kubectl("--namespace", NAMESPACE, *arguments, stdin=stdin)

    def apply(self, name: str, spec: Manifest) -> None:
        """Create or change one model."""
        self.kubectl("apply", "-f", "-", stdin=manifest(name, spec))

    def status(self, name: str) -> Manifest:
        """Return the current status of a model."""
        model_status: Manifest = json.loads(self.kubectl("get", "gi", name, "-o", "json")).get("status", {})
        return model_status

    def wait_until(self, name: str, state: str, condition: Callable[[Manifest], bool]) -> None:
        """Wait until the status of a model satisfies `condition`. Raises TimeoutError with the last status."""
        with step(f"Waiting for {name} to be {state}"):
            deadline = time.monotonic() + WAIT_SECONDS
            while not condition(status := self.status(name)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name} is not {state}: {status}")
                time.sleep(PERIOD_SECONDS)


def is_ready(status: Manifest) -> bool:
    """Return True if the condition Ready of a status is True."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))


def has_warmed_up(min_percent: int) -> Callable[[Manifest], bool]:
    """Return a function that returns True if the least advanced pod has warmed up `min_percent` percent."""
    return lambda status: status.get("warmup", {}).get("percent", 0) >= min_percent


def start_models(installed: Installation) -> None:
    """Return during the upgrade of model `code` and the first warm-up of model `summary`."""
    installed.create_namespace(NAMESPACE)
    models = Fleet(installed)
    models.kubectl("delete", "gi", "--all", "--wait=true")
    models.apply("code", {})
    models.wait_until("code", "Ready", is_ready)
    models.apply("code", SLOW)
    models.apply("summary", SLOW)
    models.wait_until("code", "half warm", has_warmed_up(50))


def run_command(arguments: tuple[str, ...], columns: int, environment: dict[str, str]) -> str:
    """Return the output of `kubectl ARGUMENTS` in a terminal with this many columns, including colours."""
    terminal, tty = pty.openpty()
    ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    variables = {**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(["kubectl", *arguments], stdout=tty, stderr=tty, stdin=tty, env=variables)
    os.close(tty)
    output = bytearray()
    # On Linux, reading from a terminal whose other side is closed raises an error instead of returning nothing.
    try:
        while chunk := os.read(terminal, 65536):
            output += chunk
    except OSError:
        pass
    os.close(terminal)
    if process.wait():
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {output.decode()}")
    return output.decode().replace("\r\n", "\n")


def svg(arguments: tuple[str, ...], output: str, columns: int) -> str:
    """Return the SVG of a terminal with `columns` and this output. The SVG loads nothing from other hosts."""
    command = f"kubectl {' '.join(arguments)}"
    console = Console(
        file=StringIO(), record=True, width=columns, force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(output.rstrip()), soft_wrap=True)
    picture = console.export_svg(title="", unique_id=re.sub(r"\W", "-", arguments[1]))
    # Remove the web font, so that viewers use their own monospace font.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    # Remove the spaces at the ends of lines, which the terminal emulation adds.
    return re.sub(r"[ \t]+\n", "\n", picture)


def capture_page(name: str, environment: dict[str, str], target: Path) -> None:
    """Let Chromium take a picture of the warm-up page of a pod of the model `name`."""
    require(CHROMIUM)
    pods = ["kubectl", "get", "pods", "-l", f"{NAME_LABEL}={name}", "-o", "name"]
    pod = subprocess.run(pods, check=True, capture_output=True, text=True, env=environment).stdout.split()[0]
    forward = ["kubectl", "port-forward", pod, f":{STATUS_PORT_NAME}"]
    forwarder = subprocess.Popen(forward, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        # The first line is "Forwarding from 127.0.0.1:PORT -> 8001".
        address = f"http://{(forwarder.stdout.readline() if forwarder.stdout else '').split(' ')[2]}/"
        with tempfile.TemporaryDirectory() as profile:
            command = [CHROMIUM["chromium"], "--headless", "--disable-gpu", "--hide-scrollbars"]
            command += ["--no-sandbox"] if os.geteuid() == 0 else []
            command += [f"--user-data-dir={profile}", "--window-size=1040,730", "--virtual-time-budget=2000"]
            subprocess.run([*command, f"--screenshot={target}", address], check=True, capture_output=True, timeout=120)
    finally:
        forwarder.terminate()
        forwarder.wait()


def user_environment(installed: Installation, folder: Path) -> dict[str, str]:
    """Return environment variables for kubectl and its plugin, with the namespace of the models."""
    kubeconfig = folder / "kubeconfig"
    shutil.copy(installed.kubeconfig, kubeconfig)
    path = f"{Path(sys.executable).parent}:{build.kubernetes()}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)}
    command = ["kubectl", "config", "set-context", "--current", f"--namespace={NAMESPACE}"]
    subprocess.run(command, check=True, capture_output=True, env=variables)
    return variables


def main() -> None:
    """Make all pictures again, and remove the cluster that was started for them."""
    installed = install.ensure_installation(CLUSTER)
    start_models(installed)
    with tempfile.TemporaryDirectory() as folder:
        environment = user_environment(installed, Path(folder))
        status = ("gaudi", "status", "code")
        (FOLDER / "status.svg").write_text(svg(status, run_command(status, COLUMNS, environment), COLUMNS))
        capture_page("summary", environment, FOLDER / "warmup-page.png")
    remove_cluster(CLUSTER)


if __name__ == "__main__":
    main()
