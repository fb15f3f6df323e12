"""scripts/hardware.sh and `gaudi-runtime hardware-report` on the plugin's own code and an emulated card."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.hardware.report import HardwareReport, ReportProofOutcome
from tests.plugin.cases import QUICK, case_config
from tests.plugin.environment import ROOT, source

pytestmark = pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="takes minutes: in make plugin only")

MOST_REPORT_BYTES = 200_000
DOCKER = """#!{python}
import os, sys
given = sys.argv[1:]
host, inside, _ = given[given.index("--volume") + 1].split(":")
command = [{{inside: host, "/cache": "{folder}"}}.get(each, each) for each in given[given.index("played") + 1 :]]
os.execv("{python}", ["{python}", "-m", "gaudi_runtime", *command])
"""
"""A program that runs the command of a container in this environment."""


def run_script(model: Path, folder: Path, **variables: str) -> tuple[int, str, HardwareReport]:
    """Run scripts/hardware.sh for a small plan. Return its exit code, its messages and its report."""
    programs = folder / "programs"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(DOCKER.format(python=sys.executable, folder=folder))
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "IMAGE": "played", **variables}
    command = ["bash", str(ROOT / "scripts" / "hardware.sh"), str(model), "--max-model-len=1024", "--max-num-seqs=4"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    file = folder / "hardware-report.json"
    assert file.exists(), done.stderr[-4000:]
    assert file.stat().st_size <= MOST_REPORT_BYTES
    return done.returncode, done.stderr, HardwareReport.model_validate_json(file.read_bytes())


def unproven(report: HardwareReport) -> set[str]:
    """Return the names of the proofs that are not proven."""
    return {each.name for each in report.proofs if each.outcome is not ReportProofOutcome.PROVEN}


def test_script_proves_all_but_compile_times_on_the_emulated_card(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    _, _, report = run_script(checkpoints["llama"], tmp_path)
    # In TorchCompile, a capture compiles a helper graph, for which the emulated card has an invented time.
    assert (report.ended, unproven(report) - {"compile times"}) == (None, set()), report.log


def test_trial_in_hpu_graphs_proves_everything(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    case = replace(QUICK[0], strategy=Strategy.EXPONENTIAL)
    config = case_config(case, checkpoints[case.family]).model_dump(mode="json", by_alias=True)
    del config["engine"]["settings"]  # vLLM's core is a separate process here, as in a pod.
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = ["-m", "gaudi_runtime", "hardware-report", "--config", "config.json", "--output", "report.json"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "report.json").exists(), done.stderr[-4000:]
    report = HardwareReport.model_validate_json((tmp_path / "report.json").read_bytes())
    assert (report.ended, unproven(report)) == (None, set()), report.log


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("counts-nothing", "The bridge counts no recipe for a new size, so recompilations cannot be seen."),
        ("hides-free-memory", "so the memory for graphs cannot be measured."),
        ("compiles-again", "again, so warm-up takes twice as long."),
    ],
)
def test_faulty_card_ends_the_script_before_the_whole_start(
    fault: str, sentence: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    code, messages, report = run_script(checkpoints["llama"], tmp_path, PLAYED_FAULTS=fault)
    assert (code, report.starts) == (1, ())
    assert report.ended is not None
    assert sentence in report.ended
    assert report.ended in messages


@pytest.mark.parametrize(
    ("method", "call", "other_call"),
    [
        ("_check_config", "self._check_config(batch", "HPUModelRunner._check_config(self, batch"),
        ("find_decode_bucket", "self.bucketing_manager.find_decode_bucket(", "FIND_DECODE(self.bucketing_manager, "),
        ("find_prompt_bucket", "self.bucketing_manager.find_prompt_bucket(", "FIND_PROMPT(self.bucketing_manager, "),
        ("_run_sampling", "self._run_sampling(", "HPUModelRunner._run_sampling(self, "),
    ],
)
def test_plugin_that_skips_an_observed_method_ends_the_script(
    method: str, call: str, other_call: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin" / "vllm_gaudi"
    shutil.copytree(source() / "vllm_gaudi", plugin)
    runner = plugin / "v1" / "worker" / "hpu_model_runner.py"
    text = runner.read_text()
    assert call in text
    saved = (
        "from vllm_gaudi.extension.bucketing.common import HPUBucketingManager\n"
        "FIND_DECODE = HPUBucketingManager.find_decode_bucket\n"
        "FIND_PROMPT = HPUBucketingManager.find_prompt_bucket\n"
    )
    runner.write_text(f"{text.replace(call, other_call)}\n{saved}")
    path = f"{plugin.parent}:{os.environ['PYTHONPATH']}"
    code, _, report = run_script(checkpoints["llama"], tmp_path, PYTHONPATH=path)
    assert (code, report.starts) == (1, ())
    assert report.ended is not None
    assert f"bucket without a call of {method}" in report.ended
