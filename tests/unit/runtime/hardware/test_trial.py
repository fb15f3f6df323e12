"""A complete trial with real processes of the simulation."""

from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.doctor.facts import DoctorFacts, ImageFacts, MachineFacts, PackageFacts
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.report import HardwareReport, ReportCardTrial, ReportProofOutcome
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
    assert set(left) == {"compile metric", "free memory", "recipe reuse", "compile times"}
    assert [(start.name, start.strategy) for start in report.starts] == [
        ("first", Strategy.LINEAR),
        ("second", Strategy.LINEAR),
        ("exponential", Strategy.EXPONENTIAL),
        ("optimal", Strategy.OPTIMAL),
    ]


GOOD_CARD = ReportCardTrial(recipes=1, allocated=GIB, lowered=GIB)


async def run_card_trial(card: ReportCardTrial, folder: Path, **script: Any) -> HardwareReport:
    """Try a configuration for cards with the simulation. `card` is what the trial of a card finds."""
    config = sim_config(script)
    on_card = config.model_copy(update={"engine": config.engine.model_copy(update={"device": "hpu"})})
    return await run_machine_trial(on_card, folder, ignore, cpu_facts, 1.5, try_card=lambda *_: card)


async def test_faulty_card_ends_trial_before_any_instance(tmp_path: Path) -> None:
    report = await run_card_trial(ReportCardTrial(recipes=0, allocated=GIB, lowered=GIB), tmp_path)
    assert report.ended == "The bridge counts no recipe for a new size, so recompilations cannot be seen."
    assert (report.card is not None, report.small_start, report.starts) == (True, None, ())


async def test_small_instance_has_few_buckets_and_starts_first(tmp_path: Path) -> None:
    # The first bucket of the whole plan with this position crashes its instance. The small plan has fewer buckets.
    report = await run_card_trial(GOOD_CARD, tmp_path, crashAtBucket="decode:5")
    assert report.ended is not None
    assert report.starts == ()
    assert report.small_start is not None
    assert report.small_start.report.phase is Phase.SERVING
    assert report.small_start.report.decode.planned < 5


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
