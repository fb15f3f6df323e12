"""The commands of docs/how-to/hardware.md test a node with a pod like a resource's pods, and leave one file."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from demo.install import Installation
from demo.resource import Resource
from gaudi_runtime.hardware.report import HardwareReport, ReportProofOutcome
from localcluster.programs import build
from tests.e2e.pods import Pods
from tests.e2e.specs import QUICK
from tests.support.documented import fences

NAME = "chat"
"""The name that the page uses."""


def test_hardware_report_is_written_and_leaves_the_resource_untouched(
    installed: Installation,
    namespace: str,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
    tmp_path: Path,
) -> None:
    of = Pods(installed, namespace, NAME)
    apply(NAME, **QUICK)
    wait_ready(NAME)
    pods = of.names()
    commands = fences("docs/how-to/hardware.md", "sh")["docs/how-to/hardware.md, In a cluster 1"]
    path = f"{build.kubernetes()}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(installed.kubeconfig)}
    prelude = f'set -euo pipefail; kubectl() {{ command kubectl --namespace {namespace} "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", prelude + commands], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = HardwareReport.model_validate_json((tmp_path / "hardware-report.json").read_bytes())
    unproven = {each.name for each in report.proofs if each.outcome is not ReportProofOutcome.PROVEN}
    assert unproven == {"compile metric", "free memory", "recipe reuse", "compile times"}, "a simulation has no bridge"
    left = installed.kubectl("get", "pods", "-n", namespace, "-o", "name").split()
    assert {each.removeprefix("pod/") for each in left} == pods == of.names()
