"""The vision tower on a card: what the plugin's own warm-up would run of it, each run alone, and what requests met.

Which sizes, and how many images, is read by letting the plugin's `warmup_multimodal_graphs` go through its list while
what it would run is only written down: buckets of the model, resolutions and limits come from four places, and no copy
of those rules can stand beside them for long (docs/internals/vllm.md, Images).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from gaudi_runtime.contract.report import VisionBucket
from gaudi_runtime.engines.vllm.workers.compile_times import NOTHING, Compiled, Compiles

MOST_KNOWN = 8192
"""Sizes of images that are remembered: requests choose them, and a worker serves for weeks."""
MOST_TEXT = 512
MOST_VALUES = 1024
"""Numbers of a tensor that are read; one with more is told by its shape."""
_EMBEDDING = SimpleNamespace(ndim=2)
"""All that the plugin looks at in what the tower makes of an image."""

Row = list[Any]


class VisionTower:
    """Stands before the tower of one runner. `compiled` reads what this process has compiled, as in Forwards.

    `runner` has planned already when `planned` is called.
    """

    def __init__(self, runner: Any, compiled: Compiles | None = None) -> None:
        self._runner, self._compiled = runner, compiled
        self._embed = runner.model.embed_multimodal
        self._known: set[str] = set()
        self._own = NOTHING
        self._batches: list[int] = []
        self._met: Counter[tuple[str, bool]] | None = None
        self._compiles: Counter[tuple[str, bool]] = Counter()
        runner.model.embed_multimodal = self._embed_multimodal

    def planned(self) -> list[VisionBucket]:
        """What the plugin would warm up, in its order, each once."""
        found: list[VisionBucket] = []
        runner = self._runner
        manager = runner.get_model().vision_bucket_manager
        # Made anew whenever the plugin prepares itself.
        if (divide := getattr(manager, "greedy_plan", None)) is not None:
            manager.greedy_plan = partial(self._greedy_plan, divide)

        def write_down(modality: str, image_args: Any, width: int, height: int, count_override: Any = None) -> Any:
            items = count_override if image_args is None else image_args
            found.append(VisionBucket(modality, int(width), int(height), int(items)))
            return {}

        def embed(**_: Any) -> list[Any]:
            return [_EMBEDDING] * found[-1].items

        with (
            _replaced(runner, _get_mm_dummy_batch=write_down, log_warmup_multimodal=lambda *_: None),
            _replaced(runner.model, embed_multimodal=embed),
        ):
            # It is None where somebody has switched buckets off, whose length the plugin takes.
            runner.warmup_multimodal_graphs(manager.multimodal_buckets or [])
        # Of a modality that no prompt may hold the plugin plans dummies of no item, and dies of them.
        limits = getattr(getattr(runner, "mm_budget", None), "mm_limits", {})
        return list(dict.fromkeys(each for each in found if each.items and limits.get(each.modality) != 0))

    def run(self, bucket: VisionBucket) -> None:
        """One bucket, by the two calls that the plugin makes for it."""
        by_batch = self._runner.get_model().vision_bucket_manager.is_batch_based
        images = (bucket.items, None) if by_batch else (None, bucket.items)
        batch = self._runner._get_mm_dummy_batch(bucket.modality, images[0], bucket.width, bucket.height, images[1])
        self._runner.model.embed_multimodal(**batch)

    def compiled_without(self) -> Compiled:
        """What this process has compiled, except for the tower."""
        return self._read() - self._own

    def start_serving(self) -> None:
        """What is met from here on counts."""
        self._met = Counter()

    def take(self) -> list[Row]:
        """Rows [inputs, whether that was warm, runs, compiles] since the last look; the counts begin again."""
        rows = [[*key, runs, self._compiles[key]] for key, runs in (self._met or {}).items()]
        if self._met is not None:
            self._met, self._compiles = Counter(), Counter()
        return rows

    def _read(self) -> Compiled:
        return self._compiled() if self._compiled else NOTHING

    def _greedy_plan(self, divide: Callable[..., list[int]], *sizes: Any) -> list[int]:
        """The plugin divides the images of some models into batches of sizes that it knows."""
        batches = divide(*sizes)
        self._batches += batches
        return batches

    def _embed_multimodal(self, **inputs: Any) -> Any:
        met, self._batches = layout(inputs), []
        before = self._read()
        embedded = self._embed(**inputs)
        ran = {f"batch of {each}" for each in self._batches} or {met}
        known = ran <= self._known
        took = self._read() - before
        compiles = int(took.counts) if self._compiled else int(not known)
        self._own += took
        if len(self._known) < MOST_KNOWN:
            self._known |= ran
        if self._met is not None:
            key = met[:MOST_TEXT], known and not compiles
            self._met[key] += 1
            self._compiles[key] += compiles
        return embedded


def layout(inputs: Mapping[str, Any]) -> str:
    """What tells two runs of the tower apart: tensors by shape, and those of whole numbers on the host by value."""
    return ", ".join(f"{name} {_layout(each)}" for name, each in sorted(inputs.items()))


def _layout(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_layout, value))}]"
    shape = getattr(value, "shape", None)
    if shape is None:
        return str(value)
    # Such as the patches of each image in height and width, by which the tower divides the one long row that it gets.
    # On the card they would have to be waited for.
    if not value.is_floating_point() and value.device.type == "cpu" and value.numel() <= MOST_VALUES:
        return str(value.tolist())
    return "x".join(map(str, shape))


@contextmanager
def _replaced(owner: Any, **others: Any) -> Iterator[None]:
    """These methods of `owner` inside of this."""
    own = {name: getattr(owner, name) for name in others}
    for name, other in others.items():
        setattr(owner, name, other)
    try:
        yield
    finally:
        for name, each in own.items():
            setattr(owner, name, each)
