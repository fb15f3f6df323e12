"""`make hardware MODEL=/path/of/a/checkpoint`: test the cards of this machine, and write one report file.

The script uses the image IMAGE, or builds the target runtime-hpu on Intel's image of the first supported pair of vLLM
and plugin. It needs docker or podman with Intel's container runtime. TENSOR_PARALLEL, MAX_MODEL_LEN and MAX_NUM_SEQS
configure the test (docs/how-to/hardware.md).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.hardware.command import print_command_result
from gaudi_runtime.hardware.report import HardwareReport

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "hardware-report.json"
BUILT = "localhost/gaudi-runtime-hpu:hardware"
OPTIONS = {
    "TENSOR_PARALLEL": "--tensor-parallel",
    "MAX_MODEL_LEN": "--max-model-len",
    "MAX_NUM_SEQS": "--max-num-seqs",
}


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Check the machine, test it and write the report. Returns 0 if all proofs succeeded."""
    program = next(filter(None, map(shutil.which, ("docker", "podman"))), None)
    model = Path(environment.get("MODEL", ""))
    if problem := find_problem(program, model):
        typer.echo(problem, err=True)
        return 2
    assert program  # noqa: S101 - find_problem has checked it
    image = environment.get("IMAGE", "")
    if not image:
        image = BUILT
        typer.echo(f"Building {image} on {PAIRS[0].image}", err=True)
        subprocess.run(build_command(program), check=True)
    command_prefix = container_command(program, image, model)
    if subprocess.run([*command_prefix, "doctor", "--engine", "vllm"], check=False).returncode:
        typer.echo("The doctor above has found faults of this machine or this image. Fix them first.", err=True)
        return 1
    options = [word for name, option in OPTIONS.items() if name in environment for word in (option, environment[name])]
    report_command = [
        *command_prefix,
        "hardware-report",
        "--model",
        f"/models/{model.name}",
        "--folder",
        "/cache",
        "--output",
        "-",
        *options,
    ]
    process = subprocess.run(report_command, stdout=subprocess.PIPE, text=True, check=False)
    return write_report(process.stdout)


def find_problem(program: str | None, model: Path) -> str | None:
    """Return a sentence about a missing model or program, or None if both exist."""
    if not (model / "config.json").is_file():
        return "Set MODEL: make hardware MODEL=/path/of/a/checkpoint, a folder with config.json and safetensors."
    if program is None:
        return "Neither docker nor podman is on the PATH: install one, with Intel's container runtime for Gaudi."
    return None


def build_command(program: str) -> list[str]:
    """Return the command that builds the image for cards, on Intel's image of the first supported pair."""
    base_argument = f"HPU_BASE_IMAGE={PAIRS[0].image}"
    return [program, "build", "--target", "runtime-hpu", "--build-arg", base_argument, "--tag", BUILT, str(ROOT)]


def container_command(program: str, image: str, model: Path) -> list[str]:
    """Return the command of a container with the permissions of our pods, all cards, and the read-only model folder."""
    cards = ["--runtime=habana", "--env", "HABANA_VISIBLE_DEVICES=all"]
    permissions = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user", "65532:65532"]
    # The driver pins memory, and vLLM's processes communicate through shared memory.
    memory = ["--ulimit", "memlock=-1:-1", "--shm-size=16g", "--tmpfs", "/tmp:mode=1777", "--tmpfs", "/cache:mode=1777"]  # noqa: S108 - the container's
    volume = ["--volume", f"{model.resolve()}:/models/{model.name}:ro"]
    return [program, "run", "--rm", *cards, *permissions, *memory, *volume, image]


def write_report(output: str) -> int:
    """Write the report that a trial has printed, and show the proofs in the report. Returns the exit code."""
    lines = output.strip().splitlines()
    if not lines:
        typer.echo("The test wrote no report: its output is printed above.", err=True)
        return 1
    report = HardwareReport.model_validate_json(lines[-1])
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(json.loads(lines[-1]), indent=1) + "\n")
    print_command_result(report)
    typer.echo(f"Report: {OUTPUT}", err=True)
    return 0 if report.has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
