"""`gaudi-runtime hardware-report` on the plugin's own code.

The plugin must contain every name that we use. `make plugin` also makes a complete report.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gaudi_runtime.hardware.plugin_names import look_up_names
from gaudi_runtime.hardware.report import HardwareReport, ProofOutcome
from tests.plugin.cases import QUICK, case_config
from tests.plugin.environment import source


def test_plugin_defines_every_name_that_the_engine_uses() -> None:
    assert [each for each in look_up_names(source() / "vllm_gaudi") if not each.fits] == []


@pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="takes minutes: in make plugin only")
def test_hardware_report_on_the_emulated_card_proves_everything(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    case = QUICK[0]
    config = case_config(case, checkpoints[case.family]).model_dump(mode="json", by_alias=True)
    del config["engine"]["settings"]  # vLLM's core is a separate process here, as in a pod.
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = ["-m", "gaudi_runtime", "hardware-report", "--config", "config.json", "--output", "report.json"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "report.json").exists(), done.stderr[-4000:]
    report = HardwareReport.model_validate_json((tmp_path / "report.json").read_bytes())
    wrong = [each for each in report.proofs if each.outcome is not ProofOutcome.PROVEN]
    assert (report.ended, wrong) == (None, []), report.log
