"""Our worker class on a card: the plugin's methods that it overrides, its counters, errors, and execution mode."""

import gc
import importlib
import os
import sys
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from gaudi_runtime.engines.vllm.launch import WorkerSettings, worker_environment
from gaudi_runtime.engines.vllm.start_errors import read_failure
from gaudi_runtime.engines.vllm.workers import driven_worker
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.driven import plain
from tests.unit.runtime.engines.vllm.workers.stand_in import CONTRACT, OURS, bridge, generate, plugin, serve

RECORDED = CONTRACT["HPUWorker"]
MODULE = "gaudi_runtime.engines.vllm.workers.hpu_worker"
SEED = 7
CONFIG = {
    "vllm_config": SimpleNamespace(
        model_config=SimpleNamespace(seed=SEED, max_model_len=1024),
        parallel_config=SimpleNamespace(data_parallel_index=0, world_size=2, tensor_parallel_size=2),
        cache_config=SimpleNamespace(enable_prefix_caching=False),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
    ),
    "local_rank": 0,
    "rank": 1,
    "distributed_init_method": "env://",
}


class FullAttentionSpec(NamedTuple):
    """A fake with the name and the fields of vLLM's FullAttentionSpec."""

    block_size: int = 128
    page_size_bytes: int = 1000


LAYERS = {"model.layers.0.attn": FullAttentionSpec(), "model.layers.1.attn": FullAttentionSpec()}
FILLED = (4 * 8 + 1) * 1000 * 2
"""The bytes of 4 sequences of 1024 tokens and the block that vLLM reserves."""


class CompilationTimes(NamedTuple):
    """The type from vllm.v1.worker.worker_base in the contract. Both durations are in seconds."""

    language_model: float
    encoder: float


class Fault(Exception):
    """The error that the plugin raises."""


@pytest.fixture
def card() -> Card:
    return Card()


@pytest.fixture
def failures(tmp_path: Path) -> Path:
    return tmp_path / "failure.json"


@pytest.fixture
def worker_class(card: Card, failures: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """DrivenHpuWorker, imported over fakes of the plugin and of vLLM's worker interface."""
    orders = WorkerSettings(execution_mode="hpuGraphs", failures=str(failures), runtime_pid=os.getpid())
    for name, value in worker_environment(orders).items():
        monkeypatch.setenv(name, value)
    modules = {
        "vllm_gaudi": SimpleNamespace(envs=SimpleNamespace()),
        RECORDED["module"]: SimpleNamespace(HPUWorker=plugin_worker(card)),
        "vllm.v1.worker.worker_base": SimpleNamespace(CompilationTimes=CompilationTimes),
        "vllm.utils.torch_utils": SimpleNamespace(set_random_seed=lambda seed: card.log.append(f"seed {seed}")),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setattr(driven_worker, "watch_runtime", lambda pid: card.log.append(f"watches {pid == os.getpid()}"))
    module = importlib.import_module(MODULE)
    monkeypatch.setattr(module, "open_bridge", lambda: bridge(card))
    # These classes need vLLM's own sampler (tests/plugin).
    for name in ("SamplerForms", "GuidedSampling"):
        monkeypatch.setattr(module, name, lambda *_: None)
    yield module.DrivenHpuWorker
    sys.modules.pop(MODULE, None)


def plugin_worker(card: Card) -> type:
    """Return a fake of the plugin's worker. Its initialize_from_config calls compile_or_warm_up_model."""

    def record(name: str) -> Any:
        return lambda self, *args: card.log.append(name)

    def initialize(self: Any, kv_cache_config: object) -> None:
        self.model_runner = plugin(card)
        card.log.append("initialize_from_config")
        self.compile_or_warm_up_model()

    def construct(
        self: Any,
        vllm_config: object,
        local_rank: int,
        rank: int,
        distributed_init_method: str,
        is_driver_worker: bool = False,
    ) -> None:
        card.log.append(f"rank {rank}")
        self.vllm_config, self.rank = vllm_config, rank

    made = generate(
        "HPUWorker",
        None,
        init_device=record("init_device"),
        load_model=record("load_model"),
        determine_available_memory=lambda self: card.free,
        get_kv_cache_spec=lambda self: LAYERS,
        initialize_from_config=initialize,
        sample_tokens=lambda self, grammar: serve(self.model_runner, ("prompt", (1, 5, 0))),
    )
    assert [each.partition("=")[0] for each in RECORDED["methods"]["__init__"]] == list(
        signature(construct).parameters
    )[1:]
    made.__init__ = construct  # type: ignore[misc]
    return made


def overridden(worker_class: type) -> list[str]:
    ours = {name for kind in (worker_class, driven_worker.DrivenWorker) for name in vars(kind)}
    return sorted(name for name in ours if name in RECORDED["methods"])


def started_worker(worker_class: Any) -> Any:
    worker = worker_class(**CONFIG)
    worker.init_device()
    worker.load_model()
    worker.initialize_from_config(object())
    return worker


def test_worker_overrides_exactly_the_listed_methods(worker_class: Any) -> None:
    assert overridden(worker_class) == [
        "__init__",
        "compile_or_warm_up_model",
        "determine_available_memory",
        "init_device",
        "initialize_from_config",
        "load_model",
        "sample_tokens",
        "take_draft_token_ids",
    ]


@pytest.mark.parametrize("by_name", [True, False])
def test_every_override_has_the_parameters_of_the_plugins_method(worker_class: Any, by_name: bool) -> None:
    for name in overridden(worker_class):
        parameters = [each.partition("=")[0] for each in RECORDED["methods"][name]]
        taken = signature(getattr(worker_class, name))
        assert taken.bind(None, **dict.fromkeys(parameters)) if by_name else taken.bind(None, *parameters)


def test_names_added_to_the_worker_have_our_prefix(worker_class: Any) -> None:
    added = {
        name for kind in (worker_class, driven_worker.DrivenWorker) for name in vars(kind) if not name.startswith("__")
    }
    assert all(name in RECORDED["methods"] or name.startswith(OURS) for name in added)


def test_worker_watches_the_runtime_before_the_plugin_starts(worker_class: Any, card: Card) -> None:
    worker_class(**CONFIG)
    assert card.log == ["watches True", "rank 1"]


def test_warm_up_of_the_plugin_is_never_called(worker_class: Any, card: Card) -> None:
    """The fake plugin's own method would raise an error. The test makes the second call, as the engine does."""
    worker = started_worker(worker_class)
    assert worker.compile_or_warm_up_model() == CompilationTimes(0.0, 0.0)
    assert card.log[2:] == ["init_device", "load_model", "initialize_from_config"]


@pytest.mark.parametrize(("measured", "reported"), [(FILLED - 1, FILLED - 1), (FILLED + 1, FILLED)])
def test_available_memory_is_limited_to_fillable_kv_blocks(
    card: Card, worker_class: Any, measured: int, reported: int
) -> None:
    card.free = measured
    assert worker_class(**CONFIG).determine_available_memory() == reported


def test_step_before_any_verb_is_not_counted(worker_class: Any) -> None:
    worker = started_worker(worker_class)
    worker.sample_tokens(None)
    assert worker.gaudi("counters", []) == {"answer": {"met": []}}


def test_step_of_serving_is_counted_and_executed(worker_class: Any) -> None:
    worker = started_worker(worker_class)
    worker.gaudi("start_serving", [])
    worker.sample_tokens(None)
    met = worker.gaudi("counters", [])["answer"]["met"]
    assert met == [["prompt", [1, 5, 0], [32, 64, 0, False], 1, 1]]


def test_seed_is_reset_when_serving_starts(worker_class: Any, card: Card) -> None:
    """The samples of requests must not depend on the buckets that were warmed."""
    started_worker(worker_class).gaudi("start_serving", [])
    assert card.log[-1] == f"seed {SEED}"


def test_garbage_collections_skip_the_objects_of_the_start(worker_class: Any) -> None:
    """A collection of all objects of a worker stops every rank for a quarter of a second."""
    gc.unfreeze()
    try:
        started_worker(worker_class).gaudi("start_serving", [])
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_verbs_run_in_inference_mode_like_requests(worker_class: Any) -> None:
    """In another mode, torch.compile would compile everything again for the first request."""
    worker = started_worker(worker_class)
    worker.gaudi("describe", [])
    worker.model_runner.warmup_sampler = lambda: inference.append(torch.is_inference_mode_enabled())
    inference: list[bool] = []
    worker.gaudi("sampler", [])
    assert inference == [True]


def test_every_verb_returns_plain_data(worker_class: Any) -> None:
    worker = started_worker(worker_class)
    asked = [("describe", []), ("memory", []), ("profile", []), ("plan", [[[1, 128, 0]], [[1, 1, 64]]])]
    asked += [("warm", ["prompt", [1, 128, 0]]), ("capture", ["decode", [1, 1, 64]]), ("sampler", [])]
    asked += [("defragmenter", []), ("start_serving", []), ("counters", [])]
    for verb, arguments in asked:
        assert list(plain(worker.gaudi(verb, arguments))) == ["answer"], verb


def test_unconfigured_execution_mode_is_a_degradation(worker_class: Any, card: Card) -> None:
    """HPU graphs are configured, but the bridge of this card is not lazy."""
    card.lazy = False
    described = started_worker(worker_class).gaudi("describe", [])["answer"]
    assert described["execution_mode"] == "torchCompile"
    assert described["degradations"] == [
        "the worker runs in mode TorchCompile instead of HpuGraphs, because a variable of the image or of engine.env "
        "sets this mode"
    ]


def test_configured_execution_mode_is_no_degradation(worker_class: Any) -> None:
    assert started_worker(worker_class).gaudi("describe", [])["answer"]["degradations"] == []


def test_runtime_error_is_serialized_with_reason_and_message(worker_class: Any) -> None:
    worker = started_worker(worker_class)
    worker.model_runner.is_pooling_model = True
    answer = plain(worker.gaudi("describe", []))
    assert answer["reason"] == "UnsupportedModel"
    assert answer["message"].startswith("Warm-up of pooling models")


def test_unexpected_error_is_serialized_with_type_and_message(worker_class: Any) -> None:
    worker = started_worker(worker_class)
    worker.gaudi("describe", [])
    worker.model_runner._prepare_dummy_scenario = lambda prompt, decode: 1 / 0
    answer = plain(worker.gaudi("warm", ["decode", [1, 1, 64]]))
    assert answer == {"reason": "Crashed", "message": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("init_device", "the device was opened"),
        ("load_model", "the model was loaded"),
        ("determine_available_memory", "memory was measured"),
        ("initialize_from_config", "the KV cache was allocated"),
    ],
)
def test_failed_step_of_the_start_is_recorded_with_its_reason(
    worker_class: Any, failures: Path, monkeypatch: pytest.MonkeyPatch, method: str, step: str
) -> None:
    def fail(self: Any, *args: object) -> None:
        raise Fault("no room")

    monkeypatch.setattr(sys.modules[RECORDED["module"]].HPUWorker, method, fail)
    worker = worker_class(**CONFIG)
    with pytest.raises(Fault):
        getattr(worker, method)(*([object()] if method == "initialize_from_config" else []))
    failure = read_failure(failures)
    assert failure is not None
    assert (failure.step, failure.kind, failure.message) == (step, "Fault", "no room")
