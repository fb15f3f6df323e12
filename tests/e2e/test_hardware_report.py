"""`kubectl gaudi hardware-report`. The command tests a node with a pod like a resource's pods, and returns one file."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from demo.install import Installation
from demo.resource import Resource
from gaudi_runtime.hardware.report import HardwareReport, ProofOutcome
from tests.e2e.pods import Pods
from tests.e2e.specs import SIMULATED

NAME = "tried"


def test_hardware_report_is_written_and_leaves_the_resource_untouched(
    installed: Installation,
    namespace: str,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
    tmp_path: Path,
) -> None:
    of = Pods(installed, namespace, NAME)
    apply(NAME, **SIMULATED)
    wait_ready(NAME)
    pods = of.names()
    file = tmp_path / "report.json"
    command = [Path(sys.executable).with_name("kubectl-gaudi"), "hardware-report", NAME, "-n", namespace, "-o", file]
    environment = {**os.environ, "KUBECONFIG": str(installed.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = HardwareReport.model_validate_json(file.read_bytes())
    unproven = {each.name for each in report.proofs if each.outcome is not ProofOutcome.PROVEN}
    assert unproven == {"names of the plugin", "compile times"}, "a simulation has no plugin and no bridge"
    assert "kubeletVersion" in report.cluster
    left = installed.kubectl("get", "pods", "-n", namespace, "-o", "name").split()
    assert {each.removeprefix("pod/") for each in left} == pods == of.names()
