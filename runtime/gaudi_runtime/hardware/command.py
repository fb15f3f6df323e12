"""The command `gaudi-runtime hardware-report`: run the trial, show progress, write the report, print the proofs."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import EngineConfig, EngineName, ModelConfig, ParallelismConfig, RuntimeConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.engines.vllm.versions import installed_version
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.report import HardwareReport, ProofOutcome
from gaudi_runtime.hardware.trial import try_machine

STDOUT = "-"
MOST_BATCHED = 8192
_STYLES = {ProofOutcome.PROVEN: "green", ProofOutcome.DISPROVEN: "bold red", ProofOutcome.NOT_TRIED: "yellow"}


def write_hardware_report(config: RuntimeConfig, output: str, folder: Path | None) -> int:
    """Run the command `gaudi-runtime hardware-report`, and return 1 if a proof failed.

    `output` is a file, or `-` for one line on standard output. Recipes and logs are kept in a new folder in `folder`,
    by default in the folder for temporary files.
    """
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="gaudi-hardware-", dir=folder) as trial_folder,
        _create_progress(console) as progress,
    ):
        report = asyncio.run(try_machine(config, Path(trial_folder), _TrialDisplay(progress)))
    report_json = report.model_dump_json(by_alias=True, exclude_none=True)
    if output == STDOUT:
        sys.stdout.write(f"{report_json}\n")
    else:
        Path(output).write_text(json.dumps(json.loads(report_json), indent=1) + "\n")
    print_proofs(report, console)
    if output != STDOUT:
        console.print(f"Report: {output}")
    return 0 if report.has_passed else 1


def trial_config(model: Path, tensor_ranks: int, max_model_len: int, max_num_seqs: int) -> RuntimeConfig:
    """Return the configuration of the vllm engine that the hardware trial uses for the checkpoint `model`.

    The device is `hpu` if the Gaudi software is installed. Raises ConfigError if `model` contains no checkpoint.
    """
    config_file = model / "config.json"
    if not config_file.is_file():
        raise ConfigError(f"{model} has no config.json. Pass the folder of a checkpoint.")
    architecture = json.loads(config_file.read_bytes())
    max_positions = architecture.get("text_config", architecture).get("max_position_embeddings", max_model_len)
    length = min(max_model_len, int(max_positions))
    has_cards = bool(installed_version("habana-torch-plugin"))
    return RuntimeConfig(
        model=ModelConfig(path=str(model.resolve()), served_names=(model.resolve().name,)),
        engine=EngineConfig(name=EngineName.VLLM, device="hpu" if has_cards else "cpu"),
        parallelism=ParallelismConfig(tensor=tensor_ranks),
        limits=Limits(
            max_model_len=length, max_num_seqs=max_num_seqs, max_num_batched_tokens=min(length, MOST_BATCHED)
        ),
    )


def print_proofs(report: HardwareReport, console: Console) -> None:
    """Print the last table of `gaudi-runtime hardware-report`: the proofs and their outcomes."""
    table = Table("", "property", "evidence", box=None, pad_edge=False)
    for proof in report.proofs:
        table.add_row(f"[{_STYLES[proof.outcome]}]{proof.outcome}", proof.name, proof.evidence)
    console.print(table)
    if report.ended:
        console.print(f"[bold red]The trial ended early:[/] {report.ended}")


def _create_progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeElapsedColumn(),
        console=console,
    )  # fmt: skip


class _TrialDisplay:
    """The progress display: one line for each step of the trial, and a progress bar during the start of an instance."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task_id: TaskID | None = None

    def __call__(self, step: str, report: WarmupReport | None) -> None:
        if step:
            self._finish_step()
            self._task_id = self._progress.add_task(step, total=None, what="")
        if report is not None and self._task_id is not None:
            planned = report.prompt.planned + report.decode.planned
            phases = (report.prompt, report.decode)
            completed = sum(phase.prepared for phase in phases)
            self._progress.update(self._task_id, total=planned or None, completed=completed, what=report.phase)

    def _finish_step(self) -> None:
        if self._task_id is not None:
            self._progress.update(self._task_id, total=1, completed=1, what="")
