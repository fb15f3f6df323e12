"""The probes of the doctor. They collect facts about the image and the machine without changing anything."""

import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor import import_trials
from gaudi_runtime.doctor.facts import DoctorFacts, ImageFacts, MachineFacts, PackageFacts
from gaudi_runtime.doctor.gaudi_facts import read_gaudi_facts
from gaudi_runtime.engines.vllm.versions import (
    allows_any_release,
    installed_plugin,
    installed_release,
    installed_version,
)
from gaudi_runtime.process.cgroup import usable_cgroup_memory, usable_cores

_FOLDER_VARIABLES = ("HOME", "HF_HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME")


def probe_facts(chosen: Collection[EngineName], *, image_only: bool) -> DoctorFacts:
    """Run the doctor's probes and return their facts. With `image_only`, the machine is not probed.

    The packages of the `chosen` engines are imported. If `chosen` is empty, the packages of all engines are imported.
    """
    bridge = installed_version("habana-torch-plugin")
    # An engine for cards cannot be imported on the machine that builds the image, because it has no card.
    engines = frozenset() if bridge and image_only else frozenset(chosen or EngineName)
    runs_model = EngineName.VLLM in engines
    torch, trial_result = _probe_package(installed_version("torch"), "torch", tried=runs_model or not image_only)
    vllm, _ = _probe_package(installed_release(), "vllm", tried=runs_model)
    image = ImageFacts(
        torch=torch,
        vllm=vllm,
        any_vllm=allows_any_release(os.environ),
        bridge=bridge,
        plugin=installed_plugin(),
        compiler=_probe_compiler(),
        python_headers=(Path(sysconfig.get_path("include")) / "Python.h").is_file(),
        read_only=probe_read_only_folders(os.environ),
    )
    return DoctorFacts(image, None if image_only else _probe_machine(tuple(trial_result.get("cards", ()))))


def probe_read_only_folders(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders from variables that cannot be written or created, each as VARIABLE=folder."""
    folders = {name: environment[name] for name in _FOLDER_VARIABLES if environment.get(name)}
    folders.setdefault("TMPDIR", tempfile.gettempdir())
    return tuple(f"{name}={folder}" for name, folder in folders.items() if not _is_writable(Path(folder)))


def _is_writable(folder: Path) -> bool:
    # Check the nearest existing parent folder, because missing folders are created below it.
    existing_folder = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return existing_folder.is_dir() and os.access(existing_folder, os.W_OK | os.X_OK)


def _probe_package(version: str, trial: str, *, tried: bool) -> tuple[PackageFacts, dict[str, Any]]:
    """Return the package and the result of its import trial."""
    if not version or not tried:
        return PackageFacts(version), {}
    # Import the package in a separate process, because the import takes seconds, prints lines and may end with a
    # signal.
    error, trial_result = import_trials.run_trial([sys.executable, "-m", import_trials.__name__, trial])
    return PackageFacts(version, error), trial_result


def _probe_compiler() -> str:
    path = shutil.which(os.environ.get("CXX", "g++"))
    if not path:
        return ""
    output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    return output.splitlines()[0] if output else path


def _probe_machine(cards: tuple[str, ...]) -> MachineFacts:
    shared_memory = os.statvfs("/dev/shm")  # noqa: S108 - looked at, not written
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return MachineFacts(
        cards=cards,
        instructions=_parse_instructions(Path("/proc/cpuinfo").read_text()),
        cores=usable_cores(),
        memory=usable_cgroup_memory(),
        shared_memory=shared_memory.f_blocks * shared_memory.f_frsize,
        locked_memory=None if soft_limit == resource.RLIM_INFINITY else soft_limit,
        gaudi=read_gaudi_facts(),
    )


def _parse_instructions(cpuinfo: str) -> frozenset[str]:
    flags = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())
