"""The sim engine. It implements every method of the protocol with scripted times, bytes and faults."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from gaudi_runtime import errors
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import (
    GRAPH_MODES,
    DeviceMemory,
    EngineLoad,
    Progress,
    RecipeKey,
)
from gaudi_runtime.engines.recipe_key import recipe_key
from gaudi_runtime.engines.sim.app import SimApplication, SimMetrics
from gaudi_runtime.engines.sim.card import (
    DEFAULT_MEMORY,
    RECIPE_SHARE,
    SimCard,
    SimCardClock,
    SimCardMemory,
    apply_script_to_sim_card,
    imaginary_sim_card,
)
from gaudi_runtime.engines.sim.script import ScriptFaults, SimScript, read_script
from gaudi_runtime.engines.sim.serving import SimServing
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from gaudi_runtime.warmup.schedule import SAMPLER_RUNS, schedule_swap_sizes


class SimEngine:
    """An engine on a simulated card. An answer echoes its prompt, so it is the same in every run."""

    def __init__(self, config: RuntimeConfig, sleep: Callable[[float], None] = time.sleep, rank: int = 0) -> None:
        """Create the engine. `sleep` takes real seconds; `rank` is the rank of this pod in its group.

        Raises ConfigError for a script with a wrong key or an unknown card.
        """
        self.captures_graphs = config.engine.execution_mode in GRAPH_MODES
        self._config = config
        self._script: SimScript = read_script(config.engine.sim_script)
        self._card = _create_card(config, self._script)
        self._clock = SimCardClock(self._script.time_scale, sleep)
        self._memory = SimCardMemory(self._card.memory_bytes)
        self._faults = ScriptFaults(self._script, rank)
        self._recipes = _SimRecipeCache(config.recipe_cache_dir, self.recipe_key())
        self._plan = BucketPlan((), ())
        self._kv_blocks = 0
        self._warm_buckets: set[tuple[BucketPhase, Bucket]] = set()
        self._serving = self._new_serving()
        self._metrics = SimMetrics()
        self._served_since = 0.0

    @property
    def counters(self) -> ServingHistogram:
        """The shapes that serving has counted so far."""
        return self._serving.counters

    def report_fields(self) -> Mapping[str, object]:
        """Return the field that marks a simulation."""
        return {"simulated": True}

    def notes(self) -> tuple[str, ...]:
        """Return a sentence that describes what is simulated."""
        card, script = self._card, self._script
        speed = "" if script.time_scale == 1 else f". One simulated second takes {script.time_scale:g} s"
        return (
            f"This is a simulation without a model. Times and bytes are simulated for card {card.name!r} "
            f"and model {card.model!r}{speed}",
        )

    def load(self, progress: Progress) -> None:
        """Wait for the scripted load time, or raise the error that the script sets in `failLoad`."""
        self._clock.wait_blocking(self._script.load_seconds)
        progress()
        if reason := self._faults.script.fail_load:
            # The script names the reason that the report must show. Raise the error class with this reason. Raise
            # RuntimeError for an unknown reason, like a crash in a real engine.
            errors_by_reason = {error.reason: error for error in errors.RuntimeStartError.__subclasses__()}
            error = errors_by_reason.get(reason, RuntimeError)
            raise error(f"The simulated checkpoint cannot be loaded, because engine.simScript.failLoad is {reason}.")
        self._reserve_memory(self._card.weight_bytes, "the weights")

    def profile(self) -> DeviceMemory:
        """Return the card's memory after the weights and the workspace are allocated."""
        self._reserve_memory(self._card.workspace_bytes, "the workspace of the profile run")
        return self._memory.current_memory()  # not memory(), which would call the other ranks of a group

    def block_bytes(self) -> int:
        """Return the bytes of one KV block."""
        return self._card.block_bytes

    def recipe_key(self) -> RecipeKey:
        """Return the recipe key of the simulated card and model."""
        return recipe_key(self._config, "sim", self._card.name, self._card.model)

    def allocate(self, kv_blocks: int) -> None:
        """Count the KV cache as used."""
        self._memory.reserve(kv_blocks * self._card.block_bytes)
        self._kv_blocks = kv_blocks
        self._serving = self._new_serving()

    def use_plan(self, plan: BucketPlan) -> None:
        """Set the buckets that requests are padded to."""
        self._plan = plan

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Wait for the time of one compile, which is shorter with a cached recipe, or raise the scripted fault."""
        extra_seconds = self._faults.inject_compile_fault(phase)
        seconds = self._card.scripted_cost(phase).compile_seconds
        if self._recipes.holds(phase, bucket):
            recipe_seconds = self._script.recipe_seconds
            seconds = seconds * RECIPE_SHARE if recipe_seconds is None else recipe_seconds
        self._clock.wait_blocking(seconds + extra_seconds)
        self._recipes.record(phase, bucket)
        self._warm_buckets.add((phase, bucket))

    def execute(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Do nothing, because the simulation has no workspace."""

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Count the time and bytes of one graph. Raises DeviceOutOfMemory by script or if the memory is full."""
        self._faults.inject_capture_fault(phase)
        graph_bytes = self._card.graph_bytes(phase, bucket, self._config.limits.block_size)
        self._memory.reserve(graph_bytes)
        self._clock.wait_blocking(self._card.scripted_cost(phase).capture_seconds)
        return graph_bytes

    def use_warm_buckets(self, plan: BucketPlan) -> None:
        """Use only these buckets as padding targets of requests."""
        self._plan = plan

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Report progress for each sampler run; the simulation has no sampler."""
        for _ in SAMPLER_RUNS:
            progress()

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Report progress for each block swap; the simulation has no cache."""
        for _ in schedule_swap_sizes():
            progress()
        return True

    def memory(self) -> DeviceMemory:
        """Return the total and the free memory of the card."""
        return self._memory.current_memory()

    def start_serving(self) -> None:
        """Start serving with counters at zero."""
        self._serving = self._new_serving()
        self._served_since = time.monotonic()

    @asynccontextmanager
    async def application(self) -> AsyncIterator[ASGIApp]:
        """Yield the OpenAI application, which echoes each prompt at the card's speed."""
        yield SimApplication(self._config.model.served_names, self._serving, self._metrics).app()

    def collectors(self) -> Sequence[Collector]:
        """Return the collectors of the series that vLLM would have."""
        return self._metrics.collectors()

    def max_pixels(self) -> int:
        """Return 0, because the simulation takes no images."""
        return 0

    def ignored_fields(self) -> Mapping[str, object]:
        """Return an empty mapping, because no field changes an echo."""
        return {}

    def current_load(self) -> EngineLoad:
        """Return the current numbers of sequences and KV blocks."""
        return self._serving.current_load()

    def heartbeat_seconds(self) -> float:
        """Return 0, or the seconds since serving started if the script stalls the engine."""
        return time.monotonic() - self._served_since if self._script.stall_serving else 0.0

    async def close(self) -> None:
        """Do nothing, because there is nothing to free."""

    def _reserve_memory(self, size: int, content: str) -> None:
        try:
            self._memory.reserve(size)
        except errors.DeviceOutOfMemory as error:
            raise errors.PlanImpossible(f"{content} do not fit the simulated card: {error}") from error

    def _new_serving(self) -> SimServing:
        return SimServing(
            self._script,
            self._card,
            self._clock,
            self._config.limits,
            self._plan,
            self._kv_blocks,
            self._warm_buckets,
            self._config.warmup.fail_on_cold_shapes,
        )


def _create_card(config: RuntimeConfig, script: SimScript) -> SimCard:
    """Return the card that the script names, or an imaginary card, with the values of the script."""
    if script.card is None and script.model is not None:
        raise errors.ConfigError(
            "engine.simScript.model needs engine.simScript.card. Set the card, for example to gaudi2."
        )
    if script.card is None:
        return apply_script_to_sim_card(imaginary_sim_card(config.engine.device_memory_bytes or DEFAULT_MEMORY), script)
    # Import the catalog only if a script needs it. The import takes memory and time, and one machine may run hundreds
    # of simulated pods.
    from gaudi_runtime.engines.sim.catalog_card import sim_card_from_catalog

    return apply_script_to_sim_card(sim_card_from_catalog(config, script.card, script.model), script)


class _SimRecipeCache:
    """The recipe cache of the sim engine: one empty file for each compiled recipe; no files without `folder`."""

    def __init__(self, folder: str | None, key: RecipeKey) -> None:
        self._folder = Path(folder) / f"sim-{key.digest}" if folder else None

    def holds(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Return whether this container or an earlier one has compiled this shape."""
        return self._folder is not None and self._recipe_file(self._folder, phase, bucket).exists()

    def record(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Record that this shape is compiled. If the folder is read-only, the next start compiles the shape again."""
        if self._folder is not None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._recipe_file(self._folder, phase, bucket).touch()

    def _recipe_file(self, folder: Path, phase: BucketPhase, bucket: Bucket) -> Path:
        return folder / f"{phase}-{bucket.batch_size}-{bucket.query_len}-{bucket.num_blocks}"
