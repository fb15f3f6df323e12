"""`gaudi-runtime hardware-report` on the plugin's own code: a complete report of an emulated card."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.hardware.report import HardwareReport, ReportProofOutcome
from tests.plugin.cases import QUICK, case_config


@pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="takes minutes: in make plugin only")
def test_hardware_report_on_the_emulated_card_proves_everything(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    case = replace(QUICK[0], strategy=Strategy.EXPONENTIAL)
    config = case_config(case, checkpoints[case.family]).model_dump(mode="json", by_alias=True)
    del config["engine"]["settings"]  # vLLM's core is a separate process here, as in a pod.
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = ["-m", "gaudi_runtime", "hardware-report", "--config", "config.json", "--output", "report.json"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "report.json").exists(), done.stderr[-4000:]
    report = HardwareReport.model_validate_json((tmp_path / "report.json").read_bytes())
    wrong = [each for each in report.proofs if each.outcome is not ReportProofOutcome.PROVEN]
    assert (report.ended, wrong) == (None, []), report.log
