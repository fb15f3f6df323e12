"""Our engine with the plugin's own code and a simulated card in one process.

Each run has a forked process, because vLLM and the plugin read their settings only once. The import of vLLM and the
plugin takes half a minute, so all runs share one import.
"""

import asyncio
import json
import logging
import multiprocessing
import os
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.engines.create_engine import set_engine_environment
from gaudi_runtime.engines.vllm.engine import VllmEngine
from gaudi_runtime.engines.vllm.launch import WorkerSettings, worker_environment
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine

CARD_BYTES = 64 << 20
Facts = dict[str, Any]
WARMED: Counter[str] = Counter()
SERVED: Counter[str] = Counter()
"""Forwards of this process by shape, during warm-up and during serving."""
SAMPLED: Counter[int] = Counter()
"""Calls of the sampler by the number of rows of their logits."""


class AsyncWrapper:
    """A wrapper that gives vLLM's synchronous engine the interface of AsyncLLM. The engine runs in this process."""

    errored = False

    def __init__(self, engine: Any) -> None:
        self.engine, self.model_config = engine, engine.model_config

    async def collective_rpc(self, method: str, args: Any) -> list[Any]:
        """Call a method of all workers."""
        answers: list[Any] = self.engine.collective_rpc(method, args=args)
        return answers

    def shutdown(self, timeout: float) -> None:
        """Do nothing, because the engine ends with this process."""


class InProcessEngine(VllmEngine):
    """Starts vLLM on the thread of the event loop, because the simulated card is registered on this thread."""

    def _launch(self, build: Any, progress: Any, meeting: Any, rank: int, look: Any) -> tuple[Any, Any]:
        parsed = parse_arguments(self._arguments)
        return parsed, asyncio.run_coroutine_threadsafe(self._built(parsed), self._loop).result()

    async def _built(self, parsed: Any) -> AsyncWrapper:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        return AsyncWrapper(LLMEngine.from_engine_args(EngineArgs.from_cli_args(parsed)))


class MultiprocessEngine(VllmEngine):
    """Starts vLLM in separate processes, as in production.

    The processes are forked from a thread with the simulated card.
    """

    def _launch(self, build: Any, progress: Any, meeting: Any, rank: int, look: Any) -> tuple[Any, Any]:
        def build_on_card(parsed: Any) -> Any:
            from habana_frameworks.torch.device import PlayedByCpu

            PlayedByCpu().__enter__()
            return build(parsed)

        return super()._launch(build_on_card, progress, meeting, rank, look)


class Run:
    """One start of the engine with a configuration, and the requests that the engine serves afterwards."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.board = ReportBoard("0" * 64)
        self.engine: VllmEngine
        self.full_at: tuple[str, int] | None = None
        """A shape, and the number of its warm-up forward that finds the card full: 1 compiles it, 2 captures it."""
        self.full_in = 0
        """The engine core whose card is full then."""
        self.separate_processes = False
        """True if vLLM has processes of its own (engine_processes.py)."""

    async def start(self) -> WarmupReport:
        """Start the engine and return the report once the engine is ready to serve."""
        self._watch_forwards()
        loop = asyncio.get_running_loop()

        def make(config: RuntimeConfig) -> VllmEngine:
            self.engine = (MultiprocessEngine if self.separate_processes else InProcessEngine)(config, loop)
            return self.engine

        await asyncio.to_thread(start_engine, self.config, self.board, threading.Event(), make)
        await self.engine._ranks.call_async("start_serving", deadline=60)
        return self.board.report()

    def ranks(self) -> list[Facts]:
        """Return the facts of each rank, such as the shapes that have run and the current buckets."""
        found: list[Facts] = self.llm.collective_rpc(collect_rank_facts)
        return found

    @property
    def llm(self) -> Any:
        """vLLM's synchronous engine."""
        return self.engine._engine.engine

    def answer(
        self, prompts: Sequence[Sequence[int]], tokens: int, adapters: Sequence[Any] = (), **sampling: Any
    ) -> list[list[int]]:
        """Answer all prompts in one batch. `adapters` contains a LoRARequest or None for each prompt."""
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import SamplingParams

        parameters = SamplingParams(max_tokens=tokens, ignore_eos=True, **{"temperature": 0.0, **sampling})
        for number, (prompt, adapter) in enumerate(zip_longest(prompts, adapters)):
            self.llm.add_request(
                str(number), TokensPrompt(prompt_token_ids=list(prompt)), parameters, lora_request=adapter
            )
        answers: dict[str, list[int]] = {}
        while self.llm.has_unfinished_requests():
            for output in self.llm.step():
                if output.finished:
                    answers[output.request_id] = list(output.outputs[0].token_ids)
        return [answers[str(number)] for number in range(len(prompts))]

    async def count_batches(self) -> dict[str, int]:
        """Return the number of batches by executed shape, from our counters. The counts of all ranks must be equal."""
        first, *others = await self.engine._ranks.call_async("counters", deadline=60)
        assert [each["met"] for each in others] == [first["met"]] * len(others)
        self.engine.counters.add_rows(
            first["met"], first.get("vision"), first.get("compile_times", ()), first.get("step_compiles", ())
        )
        return {shape_name(key[0].value, key[1]): each.batches for key, each in self.engine.counters.tallies.items()}

    def _watch_forwards(self) -> None:
        """Record the shape of every forward from its tensors, independently of the plugin's own records."""
        from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner

        run, forward = self, HPUModelRunner._execute_model_generic

        def watched(self: Any, token_ids: Any, position_ids: Any, metadata: Any, *rest: Any, **named: Any) -> Any:
            blocks = 0 if metadata.block_list is None else metadata.block_list.numel()
            size, query = token_ids.shape
            phase = "prompt" if metadata.is_prompt else "decode"
            seen = shape_name(phase, (size, query, blocks // size if metadata.is_prompt else blocks))
            if (windows := metadata.window_block_list) is not None:
                seen += f" window {windows.numel()}"
            warming = named.get("warmup_mode")
            (WARMED if warming else SERVED)[seen] += 1
            core = self.vllm_config.parallel_config.data_parallel_index
            if warming and (run.full_in, run.full_at) == (core, (seen, WARMED[seen])):
                return with_full_card(lambda: forward(self, token_ids, position_ids, metadata, *rest, **named))
            return forward(self, token_ids, position_ids, metadata, *rest, **named)

        sample = HPUModelRunner._run_sampling

        def sampled(self: Any, batch_changed: bool, logits: Any, *rest: Any, **named: Any) -> Any:
            SAMPLED[int(logits.shape[0])] += 1
            return sample(self, batch_changed, logits, *rest, **named)

        HPUModelRunner._execute_model_generic = watched
        HPUModelRunner._run_sampling = sampled


def collect_rank_facts(wrapper: Any) -> Facts:
    """Return the facts of this rank. vLLM calls this function in the worker's process with a wrapper of the worker."""
    from habana_frameworks.torch.hpu import graphs, metrics
    from torch._dynamo.utils import counters

    manager = wrapper.worker.model_runner.bucketing_manager
    buckets = {"prompt": manager.prompt_buckets, "decode": manager.decode_buckets}
    return {
        "parent": os.getppid(),
        "blocks": int(manager.num_hpu_blocks),
        "held": {phase: [list(map(int, bucket)) for bucket in each] for phase, each in buckets.items()},
        "warmed": dict(WARMED),
        "served": dict(SERVED),
        "sampled": sorted(SAMPLED),
        "captures": dict(graphs.CAPTURES),
        "compiles": counters["stats"]["unique_graphs"],
        "recipes": {source: metrics.RECIPES[source] for source in (metrics.GRAPH, metrics.EAGER)},
        "compile_microseconds": dict(metrics.metric_global("graph_compilation").stats())["TotalTime"],
    }


def with_full_card(forward: Callable[[], Any]) -> Any:
    """Run a forward while the card is full. Raises the bridge's own error during or immediately after the forward."""
    from habana_frameworks.torch.memory import MEMORY

    total, MEMORY.total = MEMORY.total, MEMORY.used
    try:
        results = forward()
        MEMORY.take(1)
        return results
    finally:
        MEMORY.total = total


def shape_name(phase: str, sizes: Sequence[int]) -> str:
    """Return a shape in the notation of these tests, such as "prompt 1x128x0"."""
    return f"{phase} {'x'.join(str(int(each)) for each in sizes)}"


def import_all() -> None:
    """Import vLLM and the plugin once, before the first run is forked."""
    with warnings.catch_warnings(action="ignore"):  # warnings of third parties
        for module in (
            "vllm.engine.arg_utils",
            "vllm.entrypoints.openai.api_server",
            "vllm.v1.engine.llm_engine",
            "vllm_gaudi.v1.worker.hpu_worker",
        ):
            import_module(module)


def run_in_fork(work: Callable[[Run], Any], config: RuntimeConfig, folder: Path) -> Facts:
    """Return the facts that `work` collects about a run in a forked process.

    Raises AssertionError like `call_in_fork`.
    """

    def run_engine() -> Facts:
        set_engine_environment(config)
        orders = WorkerSettings(
            execution_mode=config.engine.execution_mode.value,
            failures=str(folder / "failure"),
            runtime_pid=os.getpid(),
            fail_on_cold_shapes=config.warmup.fail_on_cold_shapes,
        )
        os.environ.update(worker_environment(orders))

        async def collect() -> Facts:
            facts: Facts = await work(Run(config))
            return facts

        return asyncio.run(collect())

    facts: Facts = call_in_fork(run_engine, folder)
    return facts


TIME_LIMIT = 900.0
"""The time limit of a run in seconds. On a busy machine a start takes minutes."""


def call_in_fork(work: Callable[[], Any], folder: Path, seconds: float = TIME_LIMIT) -> Any:
    """Run `work` in a forked process and return its result as plain data.

    Raises AssertionError with the log if `work` fails. The parent process must not run torch operations, because a fork
    does not copy torch's threads.
    """
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    process = multiprocessing.get_context("fork").Process(target=_write_result, args=(work, answer, log))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
    if not answer.exists():
        raise AssertionError(f"The run ended with {process.exitcode}:\n{log.read_text()[-6000:]}")
    return json.loads(answer.read_text())


def _write_result(work: Callable[[], Any], answer: Path, log: Path) -> None:
    sys.stdout = sys.stderr = log.open("w", buffering=1)
    for number in (1, 2):
        os.dup2(sys.stdout.fileno(), number)
    warnings.simplefilter("ignore")
    logging.basicConfig(stream=sys.stderr, force=True)
    try:
        answer.write_text(json.dumps(work()))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0 if answer.exists() else 1)  # Processes that vLLM has left running must not outlive this one.
