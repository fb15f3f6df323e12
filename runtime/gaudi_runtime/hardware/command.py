"""The command `gaudi-runtime hardware-report`: run the trial, show progress, write the report, print the proofs."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import typer

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import EngineConfig, EngineName, ModelConfig, ParallelismConfig, RuntimeConfig
from gaudi_runtime.engines.vllm.versions import installed_version
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.report import HardwareReport
from gaudi_runtime.hardware.trial import run_machine_trial

STDOUT = "-"
MOST_BATCHED = 8192


def write_hardware_report(config: RuntimeConfig, output: str, folder: Path | None) -> int:
    """Run the command `gaudi-runtime hardware-report`, and return 1 if a proof failed.

    `output` is a file, or `-` for one line on standard output. Recipes and logs are kept in a new folder in `folder`,
    by default in the folder for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="gaudi-hardware-", dir=folder) as trial_folder:
        report = asyncio.run(run_machine_trial(config, Path(trial_folder), _print_step))
    report_json = report.model_dump_json(by_alias=True, exclude_none=True)
    # Print the report last, because a container's log mixes the lines of both streams.
    print_command_result(report)
    if output == STDOUT:
        sys.stdout.write(f"{report_json}\n")
        sys.stdout.flush()
    else:
        Path(output).write_text(json.dumps(json.loads(report_json), indent=1) + "\n")
        _print_step(f"Report: {output}")
    return 0 if report.has_passed else 1


def command_trial_config(model: Path, tensor_ranks: int, max_model_len: int, max_num_seqs: int) -> RuntimeConfig:
    """Return the configuration of the vllm engine that the hardware trial uses for the checkpoint `model`.

    The device is `hpu` if the Gaudi software is installed. Plans have no gaps. Raises ConfigError if `model` contains
    no checkpoint.
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
            max_model_len=length,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=min(length, MOST_BATCHED),
            splits_prompts=has_cards or None,
            gapless=True,
            steps_by_tokens=not has_cards or None,
        ),
    )


def print_command_result(report: HardwareReport) -> None:
    """Print the last lines of `gaudi-runtime hardware-report`: the proofs and their outcomes."""
    for proof in report.proofs:
        _print_step(f"{proof.outcome:9}  {proof.name}: {proof.evidence}")
    if report.ended:
        _print_step(f"The trial ended early: {report.ended}")


def _print_step(step: str) -> None:
    typer.echo(step, err=True)
