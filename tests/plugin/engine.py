"""Our engine on the plugin's own code in one process: the runtime's start-up, vLLM's core, its worker, a played card.

A process is made for each run by `fork`, because vLLM and the plugin read their settings once, and because importing
them takes half a minute that all runs then share.
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
from gaudi_runtime.engines.select import tell_environment
from gaudi_runtime.engines.vllm.engine import VllmEngine
from gaudi_runtime.engines.vllm.launch import Orders, give_orders
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine

CARD_BYTES = 64 << 20
Facts = dict[str, Any]
WARMED: Counter[str] = Counter()
SERVED: Counter[str] = Counter()
"""Forwards of this process by shape, in warm-up and in serving."""
SAMPLED: Counter[int] = Counter()
"""Calls of the sampler by the rows of their logits."""


class InThisProcess:
    """What stands for vLLM's AsyncLLM: its synchronous engine, whose core and worker live here."""

    errored = False

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    async def collective_rpc(self, method: str, args: Any) -> list[Any]:
        """Of all workers."""
        answers: list[Any] = self.engine.collective_rpc(method, args=args)
        return answers

    def shutdown(self, timeout: float) -> None:
        """Nothing: what lives in this process ends with it."""


class EngineHere(VllmEngine):
    """Starts vLLM on the event loop's thread, which is the one that the played card knows."""

    def _launch(self, build: Any, progress: Any, meeting: Any, rank: int, look: Any) -> tuple[Any, Any]:
        parsed = parse_arguments(self._arguments)
        return parsed, asyncio.run_coroutine_threadsafe(self._built(parsed), self._loop).result()

    async def _built(self, parsed: Any) -> InThisProcess:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        return InThisProcess(LLMEngine.from_engine_args(EngineArgs.from_cli_args(parsed)))


class EngineApart(VllmEngine):
    """Starts vLLM in processes of its own, as in production; they are forked from a thread that knows the card."""

    def _launch(self, build: Any, progress: Any, meeting: Any, rank: int, look: Any) -> tuple[Any, Any]:
        def build_on_card(parsed: Any) -> Any:
            from habana_frameworks.torch.device import PlayedByCpu

            PlayedByCpu().__enter__()
            return build(parsed)

        return super()._launch(build_on_card, progress, meeting, rank, look)


class Run:
    """A start of this configuration, and what may be asked of it afterwards."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.board = ReportBoard("0" * 64)
        self.engine: VllmEngine
        self.full_at: tuple[str, int] | None = None
        """A shape, and which of its forwards in warm-up finds the card full: 1 compiles it, 2 captures it."""
        self.full_in = 0
        """The engine core whose card is full then."""
        self.apart = False
        """Whether vLLM has processes of its own (apart.py)."""

    async def start(self) -> WarmupReport:
        """The report once the engine is warm and may serve."""
        self._watch_forwards()
        loop = asyncio.get_running_loop()

        def make(config: RuntimeConfig) -> VllmEngine:
            self.engine = (EngineApart if self.apart else EngineHere)(config, loop)
            return self.engine

        await asyncio.to_thread(start_engine, self.config, self.board, threading.Event(), make)
        await self.engine._ranks.ask("start_serving", deadline=60)
        return self.board.report()

    def ranks(self) -> list[Facts]:
        """What each rank has seen and holds by now."""
        found: list[Facts] = self.llm.collective_rpc(of_this_rank)
        return found

    @property
    def llm(self) -> Any:
        """vLLM's synchronous engine."""
        return self.engine._engine.engine

    def answer(
        self, prompts: Sequence[Sequence[int]], tokens: int, adapters: Sequence[Any] = (), **sampling: Any
    ) -> list[list[int]]:
        """All prompts at once, to the end; `adapters` are LoRARequests, or None, for each."""
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import SamplingParams

        told = SamplingParams(max_tokens=tokens, ignore_eos=True, **{"temperature": 0.0, **sampling})
        for number, (prompt, adapter) in enumerate(zip_longest(prompts, adapters)):
            self.llm.add_request(str(number), TokensPrompt(prompt_token_ids=list(prompt)), told, lora_request=adapter)
        answers: dict[str, list[int]] = {}
        while self.llm.has_unfinished_requests():
            for output in self.llm.step():
                if output.finished:
                    answers[output.request_id] = list(output.outputs[0].token_ids)
        return [answers[str(number)] for number in range(len(prompts))]

    async def counted(self) -> dict[str, int]:
        """Batches by the shape that they ran as, as our counters have them; the ranks must have counted alike."""
        first, *others = await self.engine._ranks.ask("counters", deadline=60)
        assert [each["met"] for each in others] == [first["met"]] * len(others)
        self.engine.counters.absorb(first["met"], first.get("vision"), first.get("compile_times", ()))
        return {shape(key[0].value, key[1]): each.batches for key, each in self.engine.counters.tallies.items()}

    def _watch_forwards(self) -> None:
        """A witness of our own: every forward with the tensors that it has, whatever the plugin says of them."""
        from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner

        run, forward = self, HPUModelRunner._execute_model_generic

        def watched(self: Any, token_ids: Any, position_ids: Any, metadata: Any, *rest: Any, **named: Any) -> Any:
            blocks = 0 if metadata.block_list is None else metadata.block_list.numel()
            size, query = token_ids.shape
            phase = "prompt" if metadata.is_prompt else "decode"
            seen = shape(phase, (size, query, blocks // size if metadata.is_prompt else blocks))
            warming = named.get("warmup_mode")
            (WARMED if warming else SERVED)[seen] += 1
            core = self.vllm_config.parallel_config.data_parallel_index
            if warming and (run.full_in, run.full_at) == (core, (seen, WARMED[seen])):
                return on_full_card(lambda: forward(self, token_ids, position_ids, metadata, *rest, **named))
            return forward(self, token_ids, position_ids, metadata, *rest, **named)

        sample = HPUModelRunner._run_sampling

        def sampled(self: Any, batch_changed: bool, logits: Any, *rest: Any, **named: Any) -> Any:
            SAMPLED[int(logits.shape[0])] += 1
            return sample(self, batch_changed, logits, *rest, **named)

        HPUModelRunner._execute_model_generic = watched
        HPUModelRunner._run_sampling = sampled


def of_this_rank(wrapper: Any) -> Facts:
    """Asked of vLLM's wrapper around a worker, in the process that it lives in."""
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
        "recipes": {kind: metrics.RECIPES[kind] for kind in (metrics.MODEL, metrics.HELPER)},
    }


def on_full_card(forward: Callable[[], Any]) -> Any:
    """This forward while something else has taken all memory of the card: the bridge's own error, latest at its end."""
    from habana_frameworks.torch.memory import MEMORY

    total, MEMORY.total = MEMORY.total, MEMORY.used
    try:
        results = forward()
        MEMORY.take(1)
        return results
    finally:
        MEMORY.total = total


def shape(phase: str, sizes: Sequence[int]) -> str:
    """As these tests write it: prompt 1x128x0."""
    return f"{phase} {'x'.join(str(int(each)) for each in sizes)}"


def import_all() -> None:
    """Once, before the first run is forked."""
    with warnings.catch_warnings(action="ignore"):  # of theirs
        for module in (
            "vllm.engine.arg_utils",
            "vllm.entrypoints.openai.api_server",
            "vllm.v1.engine.llm_engine",
            "vllm_gaudi.v1.worker.hpu_worker",
        ):
            import_module(module)


def in_own_process(work: Callable[[Run], Any], config: RuntimeConfig, folder: Path) -> Facts:
    """What the coroutine `work` finds out about a run of this configuration. Raises as `forked`."""

    def find_out() -> Facts:
        tell_environment(config)
        orders = Orders(
            execution_mode=config.engine.execution_mode.value,
            failures=str(folder / "failure"),
            runtime_pid=os.getpid(),
            fail_on_cold_shapes=config.warmup.fail_on_cold_shapes,
        )
        os.environ.update(give_orders(orders))

        async def on_a_loop() -> Facts:
            facts: Facts = await work(Run(config))
            return facts

        return asyncio.run(on_a_loop())

    facts: Facts = forked(find_out, folder)
    return facts


PATIENCE = 900.0
"""Seconds, of a run that hangs: on a machine with much other work a start takes minutes."""


def forked(work: Callable[[], Any], folder: Path, seconds: float = PATIENCE) -> Any:
    """The answer of `work`, as plain data, in a process forked from this one. AssertionError with its log if it fails.

    This process itself must compute nothing with torch, whose threads a fork leaves behind.
    """
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    process = multiprocessing.get_context("fork").Process(target=_answer, args=(work, answer, log))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
    if not answer.exists():
        raise AssertionError(f"The run ended with {process.exitcode}:\n{log.read_text()[-6000:]}")
    return json.loads(answer.read_text())


def _answer(work: Callable[[], Any], answer: Path, log: Path) -> None:
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
        os._exit(0 if answer.exists() else 1)  # what vLLM has left running must not outlive it
