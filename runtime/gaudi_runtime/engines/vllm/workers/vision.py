"""The vision tower on a card: the runs of the plugin's own warm-up as buckets, and the counts of requests.

The sizes and numbers of images are found by running the plugin's `warmup_multimodal_graphs` with methods that only
record each run. The rules come from several places in the plugin (buckets of the model, resolutions, limits). A copy of
the rules would soon be out of date (docs/internals/vllm.md, Images).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from gaudi_runtime.contract.report import VisionBucket
from gaudi_runtime.engines.vllm.workers.compile_times import NOTHING, Compiles, CompileTotals

MOST_KNOWN = 8192
"""The most image sizes that are remembered, because requests choose the sizes, and a worker serves for weeks."""
MOST_TEXT = 512
MOST_VALUES = 1024
"""The most numbers of a tensor that are read; a larger tensor is identified by its shape."""
_EMBEDDING = SimpleNamespace(ndim=2)
"""An embedding with the only attribute that the plugin reads from the tower's result."""

Row = list[Any]


class VisionTower:
    """A wrapper of one runner's vision tower. `compiled` returns the compiles of this process, as in ForwardObserver.

    Call `find_buckets` after `runner` has planned its buckets.
    """

    def __init__(self, runner: Any, compiled: Compiles | None = None) -> None:
        self._runner, self._compiled = runner, compiled
        self._embed = runner.model.embed_multimodal
        self._known_inputs: set[str] = set()
        self._tower_compiles = NOTHING
        self._batch_sizes: list[int] = []
        self._run_counts: Counter[tuple[str, bool]] | None = None
        self._compiles: Counter[tuple[str, bool]] = Counter()
        runner.model.embed_multimodal = self._embed_multimodal

    def find_buckets(self) -> list[VisionBucket]:
        """Return the buckets of the plugin's own warm-up in its order, without duplicates."""
        buckets: list[VisionBucket] = []
        runner = self._runner
        manager = runner.get_model().vision_bucket_manager
        # Replace `greedy_plan` here, because the plugin sets it each time it prepares itself.
        if (divide := getattr(manager, "greedy_plan", None)) is not None:
            manager.greedy_plan = partial(self._greedy_plan, divide)

        def record_bucket(modality: str, image_args: Any, width: int, height: int, count_override: Any = None) -> Any:
            items = count_override if image_args is None else image_args
            buckets.append(VisionBucket(modality, int(width), int(height), int(items)))
            return {}

        def embed(**_: Any) -> list[Any]:
            return [_EMBEDDING] * buckets[-1].items

        with (
            _replace_methods(runner, _get_mm_dummy_batch=record_bucket, log_warmup_multimodal=lambda *_: None),
            _replace_methods(runner.model, embed_multimodal=embed),
        ):
            # `multimodal_buckets` is None if vision buckets are disabled. The plugin would call `len(None)`.
            runner.warmup_multimodal_graphs(manager.multimodal_buckets or [])
        # If prompts must not contain a modality, the plugin plans dummies with zero items for it and then fails. Remove
        # these buckets.
        limits = getattr(getattr(runner, "mm_budget", None), "mm_limits", {})
        return list(dict.fromkeys(bucket for bucket in buckets if bucket.items and limits.get(bucket.modality) != 0))

    def run(self, bucket: VisionBucket) -> None:
        """Run one bucket with the same two calls that the plugin makes for it."""
        by_batch = self._runner.get_model().vision_bucket_manager.is_batch_based
        images = (bucket.items, None) if by_batch else (None, bucket.items)
        batch = self._runner._get_mm_dummy_batch(bucket.modality, images[0], bucket.width, bucket.height, images[1])
        self._runner.model.embed_multimodal(**batch)

    def compiles_without_tower(self) -> CompileTotals:
        """Return the compiles of this process without the compiles of the vision tower."""
        return self._read_compiles() - self._tower_compiles

    def start_serving(self) -> None:
        """Start counting requests."""
        self._run_counts = Counter()

    def pop_rows(self) -> list[Row]:
        """Return rows [inputs, warm, runs, compiles] since the last call, and reset the counts."""
        rows = [[*key, runs, self._compiles[key]] for key, runs in (self._run_counts or {}).items()]
        if self._run_counts is not None:
            self._run_counts, self._compiles = Counter(), Counter()
        return rows

    def _read_compiles(self) -> CompileTotals:
        return self._compiled() if self._compiled else NOTHING

    def _greedy_plan(self, divide: Callable[..., list[int]], *sizes: Any) -> list[int]:
        """Record the batch sizes into which the plugin divides the images of some models."""
        batches = divide(*sizes)
        self._batch_sizes += batches
        return batches

    def _embed_multimodal(self, **inputs: Any) -> Any:
        description, self._batch_sizes = describe_inputs(inputs), []
        totals_before = self._read_compiles()
        embeddings = self._embed(**inputs)
        descriptions = {f"batch of {size}" for size in self._batch_sizes} or {description}
        ran_before = descriptions <= self._known_inputs
        compile_totals = self._read_compiles() - totals_before
        compiles = int(compile_totals.is_recompilation) if self._compiled else int(not ran_before)
        self._tower_compiles += compile_totals
        if len(self._known_inputs) < MOST_KNOWN:
            self._known_inputs |= descriptions
        if self._run_counts is not None:
            key = description[:MOST_TEXT], ran_before and not compiles
            self._run_counts[key] += 1
            self._compiles[key] += compiles
        return embeddings


def describe_inputs(inputs: Mapping[str, Any]) -> str:
    """Return the properties that distinguish runs of the tower: tensor shapes, and integer values on the host."""
    return ", ".join(f"{name} {_describe_value(value)}" for name, value in sorted(inputs.items()))


def _describe_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_describe_value, value))}]"
    shape = getattr(value, "shape", None)
    if shape is None:
        return str(value)
    # Show the values of small CPU tensors, such as the patches of each image in height and width, because the tower
    # divides its input by these values. Do not read tensors on the card, because each read would wait for the card.
    if not value.is_floating_point() and value.device.type == "cpu" and value.numel() <= MOST_VALUES:
        return str(value.tolist())
    return "x".join(map(str, shape))


@contextmanager
def _replace_methods(owner: Any, **methods: Any) -> Iterator[None]:
    """Replace these methods of `owner` while the block runs."""
    originals = {name: getattr(owner, name) for name in methods}
    for name, method in methods.items():
        setattr(owner, name, method)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)
