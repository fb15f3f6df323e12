"""A complete trial with real processes of the simulation."""

from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.doctor.facts import DoctorFacts, ImageFacts, MachineFacts, PackageFacts
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.report import HardwareReport, ReportProofOutcome
from gaudi_runtime.hardware.trial import run_machine_trial
from tests.unit.runtime.configs import GIB, sim_config


def ignore(step: str) -> None:
    """Ignore progress."""


def cpu_facts(engine: EngineName) -> DoctorFacts:
    """Return facts of a CPU image on a sufficiently large machine."""
    package = PackageFacts("1.0")
    image = ImageFacts(
        package, package, any_vllm=True, bridge="", plugin="", compiler="g++", python_headers=True, read_only=()
    )
    machine = MachineFacts((), frozenset({"avx512f"}), 4, 64 * GIB, GIB, None)
    return DoctorFacts(image, machine)


async def run_trial(config: RuntimeConfig, folder: Path) -> HardwareReport:
    return await run_machine_trial(config, folder, ignore, cpu_facts, settle_seconds=1.5)


async def test_trial_of_a_working_machine_proves_all_except_the_bridge(tmp_path: Path) -> None:
    report = await run_trial(sim_config(), tmp_path)
    assert report.ended is None
    left = {each.name: each.evidence for each in report.proofs if each.outcome is not ReportProofOutcome.PROVEN}
    assert set(left) == {"compile times"}
    assert [(start.name, start.strategy) for start in report.starts] == [
        ("first", Strategy.LINEAR),
        ("second", Strategy.LINEAR),
        ("exponential", Strategy.EXPONENTIAL),
        ("optimal", Strategy.OPTIMAL),
    ]


async def test_instance_that_cannot_start_ends_trial_with_its_message(tmp_path: Path) -> None:
    config = sim_config({"unknown": 1})
    report = await run_trial(config, tmp_path)
    assert report.ended is not None
    assert report.log


async def test_group_of_pods_is_refused(tmp_path: Path) -> None:
    config = sim_config()
    group = config.model_copy(update={"parallelism": config.parallelism.model_copy(update={"nodes": 2})})
    with pytest.raises(ConfigError, match="group of pods"):
        await run_trial(group, tmp_path)
