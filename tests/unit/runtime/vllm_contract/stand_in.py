"""A stand-in for vLLM's plugin, generated from the recorded contract: its names and signatures, and none besides.

Methods record their calls. What a few of them do besides is what the contract's notes say of them, on a pretended card.
"""

import json
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gaudi_runtime.engines.vllm.workers.capabilities import Bridge, open_bridge

CONTRACT = json.loads((Path(__file__).parents[3] / "data" / "vllm_gaudi_contract.json").read_text())["classes"]
MIB, GIB = 2**20, 2**30
KV_BLOCKS = 1519
OURS = "gaudi"
"""What we add to a class of the plugin begins so."""


@dataclass(frozen=True)
class Tensor:
    """Of so many numbers of two bytes."""

    numbers: int

    def numel(self) -> int:
        return self.numbers

    def element_size(self) -> int:
        return 2


LAYERS = [(Tensor(GIB), Tensor(GIB), None, None), (Tensor(GIB), None, None, None)]
"""A KV cache of 6 GiB: a layer with keys and values, and one that has them in one tensor."""


@dataclass
class Card:
    """Free bytes, the bytes of a graph per prompt token and per decode batch, and who may run out of memory.

    `longest_graphed` is the plugin's own limit of tokens, above which a prompt bypasses graphs.
    """

    free: int = 16 * GIB
    total: int = 96 * GIB
    per_prompt_token: int = MIB
    per_decode_graph: int = 3 * MIB
    longest_graphed: int = 8192
    lazy: bool = True
    compile_only: bool = False
    fails_at: tuple[int, int, int] | None = None
    failure: str = "Graph compile failed: out of memory"
    graphs: set[tuple[int, int, int]] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    running: int = 0

    def settle(self) -> None:
        """What still runs has taken its memory."""
        self.free, self.running = self.free - self.running, 0


def signature(parameters: list[str]) -> Signature:
    """Of a method, from its recorded parameters; one with a default is written name=default."""
    made = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for each in parameters:
        name, _, default = each.partition("=")
        kind = {"**": Parameter.VAR_KEYWORD, "*": Parameter.VAR_POSITIONAL}.get(name[: name.count("*")])
        optional = default or Parameter.empty
        made.append(Parameter(name.lstrip("*"), kind or Parameter.POSITIONAL_OR_KEYWORD, default=optional))
    return Signature(made)


def generate(contract: str, without: str | None, **behaviours: Callable[..., Any]) -> type:
    """The class of this contract entry; `without` one name that another release might not have."""
    facts = CONTRACT[contract]
    known = {*facts["attributes"], *facts["methods"]} - {without}

    def refuse_unknown(self: object, name: str, value: object) -> None:
        if name not in known and name != without and not name.startswith(OURS):
            raise AttributeError(f"{contract} has no {name}")
        object.__setattr__(self, name, value)

    methods = {
        name: _recorded(contract, name, signature(parameters), behaviours.get(name))
        for name, parameters in facts["methods"].items()
        if name in known and name != "__init__"
    }
    return type(contract, (), {**methods, "__setattr__": refuse_unknown})


def _recorded(owner: str, name: str, takes: Signature, behaviour: Callable[..., Any] | None) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = takes.bind(self, *args, **kwargs)
        if behaviour is not None:
            return behaviour(*given.args, **given.kwargs)
        raise AssertionError(f"{owner}.{name} is called, and nothing is said about what it does")

    method.__signature__ = takes  # type: ignore[attr-defined]
    return method


def plugin(card: Card, *, graphs: bool = True, without: tuple[str, str] = ("", "")) -> Any:
    """A model runner after the allocation of its KV cache; `without` (entry, name) is missing."""

    def lacking(entry: str) -> str | None:
        return without[1] if without[0] == entry else None

    def record(name: str) -> Callable[..., None]:
        return lambda self, *args: card.log.append(f"{name}{args if args else '()'}")

    swaps = generate("OnlineDefragmenter", lacking("OnlineDefragmenter"), warmup=record("defragmenter.warmup"))
    _give_constructor(swaps, lacking("OnlineDefragmenter"))
    manager = generate(
        "HPUBucketingManager",
        lacking("HPUBucketingManager"),
        generate_prompt_buckets=_planned_without_us,
        generate_decode_buckets=_planned_without_us,
    )()
    _fill(manager, lacking("HPUBucketingManager"), prompt_buckets=[], decode_buckets=[], num_hpu_blocks=KV_BLOCKS)
    runner = generate(
        "HPUModelRunner",
        lacking("HPUModelRunner"),
        warmup_model=lambda self: _prepare(self, card, swaps, lacking("HPUModelRunner")),
        warmup_sampler=record("warmup_sampler"),
        _prepare_dummy_scenario=lambda self, prompt, decode: _dummy(self, card, prompt, decode),
        _check_config=lambda self, *shape: None,
        _use_graphs=lambda self, metadata, batch: graphs and metadata <= card.longest_graphed,
    )()
    settings = {"bucketing_manager": manager, "enable_bucketing": True, "use_hpu_graph": graphs, "skip_warmup": False}
    models = {"is_pooling_model": False, "supports_mm_inputs": False, "speculative_config": None}
    state = {"seen_configs": set(), "graphed_buckets": set(), "mem_margin": float(GIB), "block_size": 128}
    cache = {"kv_caches": LAYERS, "max_prefill_batch_size": 2}
    _fill(runner, lacking("HPUModelRunner"), **settings, **models, **state, **cache)
    return runner


def bridge(card: Card, *missing: str) -> Bridge:
    """The Gaudi software around the card, found as the runtime finds it; `missing` names are not there."""

    @contextmanager
    def env_setting(name: str, value: object) -> Any:
        assert (name, value) == ("PT_COMPILE_ONLY_MODE", True)
        card.compile_only = True
        yield
        card.compile_only = False

    offered = {
        "torch": SimpleNamespace(hpu=_module("torch.hpu", card, missing)),
        "habana_frameworks.torch.utils.internal": _module("habana_frameworks.torch.utils.internal", card, missing),
        "habana_frameworks.torch.internal.bridge_config": SimpleNamespace(env_setting=env_setting),
    }

    def load(name: str) -> Any:
        if name in missing:
            raise ImportError(f"No module named {name!r}")
        return offered[name]

    return open_bridge(load)


def _module(name: str, card: Card, missing: tuple[str, ...]) -> SimpleNamespace:
    figures: dict[str, Callable[[], Any]] = {
        "mem_get_info": lambda: (card.free, card.total),
        "synchronize": card.settle,
        "is_lazy": lambda: card.lazy,
    }
    recorded = CONTRACT[f"external:{name}"]["methods"]
    return SimpleNamespace(**{each: figures[each] for each in recorded if each not in missing})


def _give_constructor(swaps: Any, lacking: str | None) -> None:
    def construct(self: Any, kv_caches: Any, block_size: int) -> None:
        _fill(self, lacking, kv_caches=kv_caches, block_size=block_size)

    swaps.__init__ = construct


def _fill(instance: Any, without: str | None, **values: object) -> None:
    """Every recorded attribute, None where nothing else is said; but not those that the plugin makes later."""
    for name in CONTRACT[type(instance).__name__]["attributes"]:
        if name not in (without, "defragmenter"):
            setattr(instance, name, values.get(name))


def _planned_without_us(manager: Any) -> None:
    raise AssertionError("the plugin plans buckets by itself")


def _prepare(runner: Any, card: Card, swaps: Any, lacking: str | None) -> None:
    """warmup_model: plan both phases, make the defragmenter, and go on only when warm-up is not to be skipped."""
    runner.bucketing_manager.generate_prompt_buckets()
    runner.bucketing_manager.generate_decode_buckets()
    if lacking != "defragmenter":
        runner.defragmenter = swaps((), 128)
    card.log.append(f"warmup_model() skip_warmup={runner.skip_warmup}")


def _dummy(runner: Any, card: Card, prompt: tuple[int, int, int] | None, decode: tuple[int, int, int] | None) -> None:
    """One forward: its shape is checked first, then a lazy card captures a graph of a new shape that may have one."""
    shape = prompt or decode
    assert shape is not None
    tokens = shape[0] * shape[1]
    card.log.append(f"_prepare_dummy_scenario({prompt}, {decode}){' compile-only' if card.compile_only else ''}")
    runner._check_config(*shape, tokens, True)
    if shape == card.fails_at:
        raise RuntimeError(card.failure)
    if runner.use_hpu_graph and (not card.lazy or runner._use_graphs(tokens, shape[0])) and shape not in card.graphs:
        card.graphs.add(shape)
        card.running += card.per_prompt_token * tokens if prompt else card.per_decode_graph
        card.log[-1] += " -> graph"
    if hasattr(runner, "seen_configs"):
        runner.seen_configs.add(("prompt" if prompt else "decode", *shape))
