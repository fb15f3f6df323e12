"""A fake of vLLM's plugin, generated from the recorded contract with the same names and signatures.

Methods record their calls. A few methods also act on a fake card as the notes in the contract describe.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gaudi_runtime.engines.vllm.workers.bridge import Bridge, open_bridge
from tests.unit.runtime.engines.vllm.workers.card import GIB, MIB, Card

CONTRACT = json.loads((Path(__file__).parents[5] / "data" / "vllm_gaudi_contract.json").read_text())["classes"]
KV_BLOCKS = 1519
OURS = "gaudi"
"""The prefix of attributes that we add to a class of the plugin."""


@dataclass(frozen=True)
class Tensor:
    """A tensor whose storage has `size` bytes at `address`."""

    address: int
    size: int

    def untyped_storage(self) -> "Tensor":
        return self

    def data_ptr(self) -> int:
        return self.address

    def nbytes(self) -> int:
        return self.size


SHARED = Tensor(3, 2 * GIB)
LAYERS = [
    (Tensor(1, GIB), Tensor(2, GIB), None, (Tensor(4, GIB), Tensor(5, GIB))),
    (SHARED, None, None, None),
    (SHARED, None, None, None),
]
"""A KV cache of 6 GiB: a layer with keys, values and scales, and two layers that share one storage."""


def signature(parameters: list[str]) -> Signature:
    """Return the signature of a method from its recorded parameters. A default is recorded as name=default."""
    made = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for each in parameters:
        name, _, default = each.partition("=")
        kind = {"**": Parameter.VAR_KEYWORD, "*": Parameter.VAR_POSITIONAL}.get(name[: name.count("*")])
        optional = default or Parameter.empty
        made.append(Parameter(name.lstrip("*"), kind or Parameter.POSITIONAL_OR_KEYWORD, default=optional))
    return Signature(made)


def generate(contract: str, without: str | None, **behaviours: Callable[..., Any]) -> type:
    """Return the class of this contract entry without the name `without`, which another release might not have."""
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


def plugin(
    card: Card,
    *,
    graphs: bool = True,
    without: tuple[str, str] = ("", ""),
    drafts: int = 0,
    images: Sequence[int] | None = None,
) -> Any:
    """Return a model runner with n-gram drafts and a KV cache, in which the (entry, name) `without` is missing.

    If `images` is given, the model accepts images in batches of these sizes.
    """

    def missing_in(entry: str) -> str | None:
        return without[1] if without[0] == entry else None

    def record(name: str) -> Callable[..., None]:
        return lambda self, *args: card.log.append(f"{name}{args if args else '()'}")

    swaps = generate("OnlineDefragmenter", missing_in("OnlineDefragmenter"), warmup=record("defragmenter.warmup"))
    _set_constructor(swaps, missing_in("OnlineDefragmenter"))
    manager = generate(
        "HPUBucketingManager",
        missing_in("HPUBucketingManager"),
        generate_prompt_buckets=_plan_by_plugin,
        generate_decode_buckets=_plan_by_plugin,
        find_prompt_bucket=_lookup_in("prompt_buckets"),
        find_decode_bucket=_lookup_in("decode_buckets"),
    )()
    _fill(manager, missing_in("HPUBucketingManager"), prompt_buckets=[], decode_buckets=[], num_hpu_blocks=KV_BLOCKS)
    runner = generate(
        "HPUModelRunner",
        missing_in("HPUModelRunner"),
        warmup_model=lambda self: _prepare(self, card, swaps, missing_in("HPUModelRunner")),
        warmup_sampler=record("warmup_sampler"),
        _prepare_dummy_scenario=lambda self, prompt, decode: _dummy(self, card, prompt, decode),
        _add_dummy_request=_add_dummy,
        _execute_dummy_scenario=_execute_dummies,
        execute_model=lambda self, step, warmup_mode: _run_dummies(self, card, step),
        _execute_model_generic=_execute_forward,
        _run_sampling=lambda self, batch_changed, logits, *rest: (logits(), None),
        _check_config=lambda self, *shape: card.run(*shape[:3], shape[3].is_prompt),
        _can_merge_prefill_contents=_merges,
        _use_graphs=lambda self, metadata, batch: graphs and metadata.tokens <= card.longest_graphed,
        warmup_multimodal_graphs=lambda self, buckets: _warm_images(self, buckets),
        log_warmup_multimodal=record("log_warmup_multimodal"),
        _get_mm_dummy_batch=lambda self, *sizes: {"pixel_values": Pixels((sizes[1] or sizes[4], 3, *sizes[2:4]))},
        get_model=lambda self: self.model,
    )()
    settings = {"bucketing_manager": manager, "enable_bucketing": True, "use_hpu_graph": graphs, "skip_warmup": False}
    speculative = SimpleNamespace(method="ngram", num_speculative_tokens=drafts) if drafts else None
    models = {"is_pooling_model": False, "supports_mm_inputs": images is not None, "speculative_config": speculative}
    state = {"graphed_buckets": set(), "mem_margin": float(GIB), "block_size": 128}
    cache = {
        "kv_caches": LAYERS,
        "max_model_len": 2**20,
        "use_contiguous_pa": False,
        "use_structured_output": False,
    }
    batch = generate("InputBatch", missing_in("InputBatch"), condense=lambda self, indices: None)()
    _fill(batch, missing_in("InputBatch"), **{name: {} for name in CONTRACT["InputBatch"]["attributes"]})
    sizes = generate("HPUVisionBucketManager", missing_in("HPUVisionBucketManager"), greedy_plan=_divided)()
    sampled = {"requests": {}, "input_batch": batch}
    seen = {"multimodal_buckets": images, "is_batch_based": True}
    _fill(sizes, missing_in("HPUVisionBucketManager"), **seen)
    sees = {"model": SimpleNamespace(vision_bucket_manager=sizes, embed_multimodal=partial(_embed, card, sizes))}
    _fill(
        runner,
        missing_in("HPUModelRunner"),
        **settings,
        **models,
        **state,
        **cache,
        **sees,
        **sampled,
    )
    return runner


@dataclass(frozen=True)
class Pixels:
    """A tensor of images on the card."""

    shape: tuple[int, ...]

    def is_floating_point(self) -> bool:
        return True


def _warm_images(runner: Any, buckets: Sequence[int]) -> None:
    """Warm up each batch size once with images of one size, as the plugin does for models that accept images."""
    for at, size in enumerate(buckets):
        embedded = runner.model.embed_multimodal(**runner._get_mm_dummy_batch("image", size, 896, 896, None))
        assert [each.ndim for each in embedded] == [2] * size
        runner.log_warmup_multimodal("Graph/Multimodal(image)", at, len(buckets), size, 0, 896, 896)


def _divided(manager: Any, images: int, sizes: Sequence[int]) -> list[int]:
    if not images:
        return []
    largest = max(each for each in sizes if each <= images)
    return [largest, *_divided(manager, images - largest, sizes)]


def _embed(card: Card, manager: Any, pixel_values: Pixels) -> list[Any]:
    """Run the vision tower on one batch at a time. Each new batch size takes memory."""
    images = pixel_values.shape[0]
    for size in manager.greedy_plan(images, manager.multimodal_buckets):
        shape = (size, *pixel_values.shape[2:])
        card.log.append(f"tower {size}{' compile-only' if card.compile_only else ''}")
        if shape == card.fails_at:
            raise RuntimeError(card.failure)
        if shape not in card.graphs:
            card.graphs.add(shape)
            card.running += size * MIB
            card.compile()
    return [SimpleNamespace(ndim=2)] * images


def bridge(card: Card, *missing: str) -> Bridge:
    """Return the Gaudi software of the card as the runtime finds it, without the names in `missing`."""

    @contextmanager
    def env_setting(name: str, value: object) -> Any:
        assert (name, value) == ("PT_COMPILE_ONLY_MODE", True)
        card.compile_only = True
        yield
        card.compile_only = False

    offered = {
        "torch": SimpleNamespace(hpu=_module("torch.hpu", card, missing)),
        "torch._dynamo.utils": SimpleNamespace(counters={"stats": card.dynamo}),
        "torch._dynamo.callback": SimpleNamespace(callback_handler=card.dynamo_callbacks),
        "habana_frameworks.torch.core": _module("habana_frameworks.torch.core", card, missing),
        "habana_frameworks.torch.hpu.metrics": SimpleNamespace(
            metric_global=lambda name: _Metric(card) if name == "graph_compilation" and name not in missing else None
        ),
        "habana_frameworks.torch.utils.internal": _module("habana_frameworks.torch.utils.internal", card, missing),
        "habana_frameworks.torch.internal.bridge_config": SimpleNamespace(env_setting=env_setting),
    }

    def load(name: str) -> Any:
        if name in missing:
            raise ImportError(f"No module named {name!r}")
        return offered[name]

    return open_bridge(load)


@dataclass(frozen=True)
class _Metric:
    card: Card

    def stats(self) -> list[tuple[str, float]]:
        """Return the values of the bridge, in microseconds."""
        return [("TotalNumber", self.card.recipes), ("TotalTime", self.card.compile_seconds * 1e6), ("AvgTime", 0.0)]


def _module(name: str, card: Card, missing: tuple[str, ...]) -> SimpleNamespace:
    figures: dict[str, Callable[[], Any]] = {
        "mem_get_info": lambda: (card.free, card.total),
        "synchronize": card.settle,
        "is_lazy": lambda: card.lazy,
        "mark_step": lambda: None,
    }
    recorded = CONTRACT[f"external:{name}"]["methods"]
    return SimpleNamespace(**{each: figures[each] for each in recorded if each not in missing})


def _set_constructor(swaps: Any, missing_in: str | None) -> None:
    def construct(self: Any, kv_caches: Any, block_size: int) -> None:
        _fill(self, missing_in, kv_caches=kv_caches, block_size=block_size)

    swaps.__init__ = construct


def _fill(instance: Any, without: str | None, **values: object) -> None:
    """Set every recorded attribute to None or its default, except those that the plugin creates later."""
    for name in CONTRACT[type(instance).__name__]["attributes"]:
        if name not in (without, "defragmenter"):
            setattr(instance, name, values.get(name))


def _plan_by_plugin(manager: Any) -> None:
    raise AssertionError("the plugin plans buckets by itself")


def _prepare(runner: Any, card: Card, swaps: Any, missing_in: str | None) -> None:
    """Implement warmup_model: plan both phases, create the defragmenter, and log whether warm-up is skipped."""
    runner.bucketing_manager.generate_prompt_buckets()
    runner.bucketing_manager.generate_decode_buckets()
    if missing_in != "defragmenter":
        runner.defragmenter = swaps((), 128)
    card.log.append(f"warmup_model() skip_warmup={runner.skip_warmup}")


def _merges(runner: Any, batch: Sequence[int], prompt: Sequence[int]) -> bool:
    """Return whether the plugin merges a batch and a prompt: their bucket must have at most 2048 tokens."""
    lengths = (*batch, *prompt)
    size, query, _ = runner.bucketing_manager.find_prompt_bucket(len(lengths), max(lengths), 0)
    return bool(size * query <= 2048)


def _lookup_in(buckets: str) -> Callable[..., Any]:
    """Return a lookup like the plugin's: the result is the first bucket that holds the batch, or a new bucket."""

    def find(manager: Any, *sizes: int) -> Any:
        wanted = sizes if buckets == "prompt_buckets" else (sizes[0], 1, sizes[1])
        by_seeds = buckets == "decode_buckets" and sizes[2:] == (True,)
        known = manager.seed_decode_buckets if by_seeds else getattr(manager, buckets)
        for each in known:
            if all(has >= needs for has, needs in zip(each, wanted, strict=True)):
                return each
        known.append(fallback := tuple(-(-each // 32) * 32 for each in wanted))
        return fallback

    return find


def serve(runner: Any, *batches: tuple[str, tuple[int, int, int]]) -> None:
    """Run one step: look up a bucket for a possible merge, then look up and run each batch in `batches`."""
    manager, forwards = runner.bucketing_manager, []
    manager.find_prompt_bucket(1, 64, 0)
    for phase, (size, query, blocks) in batches:
        if phase == "prompt":
            size, query, blocks = manager.find_prompt_bucket(size, query, blocks)
            forwards.append((True, size, query, size * blocks))
        else:
            size = manager.find_decode_bucket(size, blocks, False)[0]
            forwards.append((False, size, 1, manager.find_decode_bucket(size, blocks)[2]))
    for prompt, *shape in forwards:
        metadata = SimpleNamespace(is_prompt=prompt, tokens=shape[0] * shape[1])
        runner._execute_model_generic(shape, None, metadata, None, None, None, None)


def _execute_forward(runner: Any, shape: Sequence[int], positions: Any, metadata: Any, *_: Any) -> None:
    runner._check_config(*shape, metadata, False)
    if runner.use_hpu_graph:
        runner._use_graphs(metadata, shape[0])


def sample(runner: Any, request_ids: Sequence[str], compute: Callable[[], Any]) -> None:
    """Sample the tokens of these requests. `compute` runs the sampler."""
    runner._run_sampling(False, compute, request_ids)


@dataclass(frozen=True)
class Dummy:
    """A request of `total` tokens, of which `computed` tokens are in the cache."""

    computed: int
    total: int


def _add_dummy(runner: Any, requests: list[Dummy], scheduled: dict[str, int], *sizes: Any) -> None:
    computed, total, tokens, is_prompt = sizes
    assert total <= runner.max_model_len
    scheduled[str(len(requests))] = total - computed if is_prompt else tokens
    requests.append(Dummy(computed, total))


def _execute_dummies(runner: Any, requests: list[Dummy], scheduled: dict[str, int]) -> None:
    step = {"requests": requests, "num_scheduled_tokens": scheduled, "scheduled_spec_decode_tokens": {}}
    run = getattr(runner, "execute_model", None)
    # In other releases, this method may have another name. Only the tests of drafts need the method.
    if run:
        run(SimpleNamespace(**step), warmup_mode=True)


def _run_dummies(runner: Any, card: Card, step: Any) -> None:
    """Run a batch of prompts, or of sequences with drafts, with the padding that a batch of requests has."""
    manager, block_size = runner.bucketing_manager, runner.block_size
    requests, tokens = step.requests, max(step.num_scheduled_tokens.values())
    if requests[0].computed < requests[0].total:
        blocks = max(-(-each.computed // block_size) for each in requests)
        _dummy(runner, card, manager.find_prompt_bucket(len(requests), tokens, blocks), None)
        return
    assert {len(each) for each in step.scheduled_spec_decode_tokens.values()} == {tokens - 1}
    blocks = [-(-(each.computed + 1) // block_size) for each in requests]
    rows = manager.find_decode_bucket(len(requests), sum(blocks), True)[0] * tokens
    _dummy(runner, card, None, (rows, 1, manager.find_decode_bucket(rows, sum(blocks) * tokens)[2]))
    card.log[-1] += f" of {len(requests)} sequences with {tokens} tokens"


def _dummy(runner: Any, card: Card, prompt: tuple[int, int, int] | None, decode: tuple[int, int, int] | None) -> None:
    """Run one forward and sample. Check its shape, and capture a graph of a new shape if the runner uses graphs."""
    shape = prompt or decode
    assert shape is not None
    size, query, blocks = shape
    if prompt:
        runner.bucketing_manager.find_prompt_bucket(size, query, blocks)
    else:
        runner.bucketing_manager.find_decode_bucket(size, blocks)
    tokens = size * query
    metadata = SimpleNamespace(is_prompt=prompt is not None, tokens=tokens)
    card.log.append(f"_prepare_dummy_scenario({prompt}, {decode}){' compile-only' if card.compile_only else ''}")
    runner._check_config(size, query, size * blocks if prompt else blocks, metadata, True)
    if shape == card.fails_at:
        raise RuntimeError(card.failure)
    if runner.use_hpu_graph and (not card.lazy or runner._use_graphs(metadata, size)) and shape not in card.graphs:
        card.graphs.add(shape)
        card.running += card.per_prompt_token * tokens if prompt else card.per_decode_graph
        card.log[-1] += " -> graph"
    # In other releases, this method may have another name.
    if hasattr(runner, "_run_sampling"):
        runner._run_sampling(False, lambda: None, ())
