"""The command `gaudi-runtime hardware-report`: its file, its exit code, and refused options."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gaudi_runtime.__main__ import app
from gaudi_runtime.hardware import command
from gaudi_runtime.hardware.report import HardwareReport, ReportProof, ReportProofOutcome
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.hardware.test_proofs import facts


def report(*outcomes: ReportProofOutcome, ended: str | None = None) -> HardwareReport:
    """Return a report whose proofs have these outcomes."""
    return facts(proofs=tuple(ReportProof(name="gate", outcome=each, evidence="") for each in outcomes), ended=ended)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(ReportProofOutcome.PROVEN, ReportProofOutcome.NOT_TRIED), 0),
        (report(ReportProofOutcome.PROVEN, ReportProofOutcome.DISPROVEN), 1),
        (report(ReportProofOutcome.PROVEN, ended="Its process ended with 1."), 1),
    ],
    ids=["not tried", "disproven", "ended early"],
)
def test_exit_code_is_0_if_no_proof_failed(
    found: HardwareReport, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trial(*_: Any) -> HardwareReport:
        return found

    monkeypatch.setattr(command, "run_machine_trial", trial)
    config, output = tmp_path / "config.json", tmp_path / "report.json"
    config.write_text(sim_config().model_dump_json(by_alias=True))
    done = CliRunner().invoke(app, ["hardware-report", "--config", str(config), "--output", str(output)])
    assert done.exit_code == code
    assert HardwareReport.model_validate_json(output.read_bytes()) == found


def test_model_and_config_together_are_refused() -> None:
    done = CliRunner().invoke(app, ["hardware-report", "--model", "/models", "--config", "config.json"])
    assert done.exit_code == 2
    assert done.stderr == ("error: Pass either the folder of a checkpoint (--model) or a configuration (--config).\n")
