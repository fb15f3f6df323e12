"""The journal of a recipe cache: which buckets were compiled, and how long each step took.

A text beside the recipes, read once at start, with a line appended per step: first a line with the key, then one JSON
line per step, the last one of a step counts (docs/how-to/recipe-cache.md).
"""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.warmup.estimate import Step, StepKind

log = logging.getLogger("gaudi_runtime.warmup")

FORMAT = 1
JOURNAL_PREFIX = "warmup-"
# A plan has at most 250,000 buckets; a larger text is nobody's journal.
MAX_JOURNAL_BYTES = 64 * 1024 * 1024


class JournalUnusable(Exception):
    """The text is not a journal of this key; the message says why, as the end of a sentence."""


@dataclass(frozen=True)
class Recipes:
    """Seconds of every step that was done with one key, in this or an earlier life of the container."""

    seconds: Mapping[Step, float]

    def compiled(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Whether the cache holds the recipe of this shape."""
        return (StepKind.COMPILE, phase, bucket) in self.seconds

    def kind(self, phase: BucketPhase, bucket: Bucket) -> StepKind:
        """What warming this shape will be: loading its recipe, or compiling it."""
        return StepKind.LOAD if self.compiled(phase, bucket) else StepKind.COMPILE

    def saved(self, step: Step, seconds: float) -> float:
        """Seconds of compiling that a step spared, which took `seconds`: 0 but for the load of a recipe.

        Its compile took what the journal says of the process that did it, maybe of another pod.
        """
        kind, phase, bucket = step
        return self.seconds[StepKind.COMPILE, phase, bucket] - seconds if kind is StepKind.LOAD else 0.0

    def and_those_of(self, other: "Recipes") -> "Recipes":
        """Steps of both; of a step that both know, ours."""
        return Recipes({**other.seconds, **self.seconds})


NOTHING_KNOWN = Recipes({})


def journal_name(key: RecipeKey) -> str:
    """File name of the journal of a key."""
    return f"{JOURNAL_PREFIX}{key.digest}.jsonl"


def header(key: RecipeKey) -> str:
    """First line of a journal."""
    # What a recipe depends on, and never the plan: one bucket more must not discard every recipe.
    return _canonical({"format": FORMAT, "key": asdict(key)}) + "\n"


def line(step: Step, seconds: float) -> str:
    """One step as a line of the journal."""
    kind, phase, bucket = step
    return _canonical({"step": kind, "phase": phase, "bucket": list(bucket), "seconds": round(seconds, 6)}) + "\n"


def parse(text: str, key: RecipeKey) -> Recipes:
    """The steps in a journal. Raises JournalUnusable with the reason."""
    # A last line without its end is left out: the process was killed while it wrote it.
    first, *lines = text.split("\n")[:-1] or [""]
    if first + "\n" != header(key):
        raise JournalUnusable("its first line is not that of this software, card, model, dtype and parallelism")
    return Recipes(dict(_step(number, each) for number, each in enumerate(lines, start=2)))


def text_of(recipes: Recipes, key: RecipeKey) -> str:
    """The shortest journal that says the same."""
    return header(key) + "".join(line(step, seconds) for step, seconds in recipes.seconds.items())


def _step(number: int, text: str) -> tuple[Step, float]:
    try:
        said = json.loads(text)
        step = (StepKind(said["step"]), BucketPhase(said["phase"]), _bucket(said["bucket"]))
        seconds = float(said["seconds"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise JournalUnusable(f"line {number} is not a step of a warm-up: {text[:80]!r}") from error
    if not math.isfinite(seconds) or seconds < 0:
        raise JournalUnusable(f"line {number} has impossible seconds: {text[:80]!r}")
    return step, seconds


def _bucket(numbers: list[int]) -> Bucket:
    batch_size, query_len, num_blocks = numbers
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(numbers)
    return Bucket(batch_size, query_len, num_blocks)


def _canonical(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


class Journal:
    """What earlier lives of this container compiled, and where this one writes it down.

    Nothing here can fail a warm-up: a journal that cannot be read or written only costs the estimate. `warning` is
    the sentence that says so.
    """

    def __init__(self, folder: str | None, key: RecipeKey | None) -> None:
        """`folder` is that of the recipes. Without a folder or a key no journal is kept."""
        self.recipes = NOTHING_KNOWN
        self.warning: str | None = None
        self._file: TextIO | None = None
        if folder is not None and key is not None:
            self._open(Path(folder) / journal_name(key), key)

    @property
    def kept(self) -> bool:
        """Whether steps are written down."""
        return self._file is not None

    def write(self, step: Step, seconds: float) -> None:
        """Keep a step."""
        if self._file is None:
            return
        try:
            self._file.write(line(step, seconds))
            # Line by line, so that a kill loses at most the one in work.
            self._file.flush()
        except OSError as error:
            self._warn(f"The warm-up journal {self._file.name} cannot be written: {error.strerror}; it ends here.")
            self._file = None

    def close(self) -> None:
        """Nothing more will be written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, key: RecipeKey) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.recipes = self._read(path, key)
            # A new file in the place of the old one: a reader sees the one or the other.
            new = path.with_suffix(".new")
            new.write_text(text_of(self.recipes, key), encoding="utf-8")
            new.replace(path)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            self._warn(f"The warm-up journal {path} is not kept: {error.strerror}.")

    def _read(self, path: Path, key: RecipeKey) -> Recipes:
        try:
            with path.open("rb") as file:
                content = file.read(MAX_JOURNAL_BYTES + 1)
            if len(content) > MAX_JOURNAL_BYTES:
                raise JournalUnusable(f"it has more than {MAX_JOURNAL_BYTES} bytes")
            return parse(content.decode(), key)
        except FileNotFoundError:
            return NOTHING_KNOWN
        except UnicodeDecodeError:
            self._ignore(path, "it is not UTF-8")
        except JournalUnusable as reason:
            self._ignore(path, str(reason))
        return NOTHING_KNOWN

    def _ignore(self, path: Path, reason: str) -> None:
        self._warn(f"The warm-up journal {path} is ignored and begun again: {reason}.")

    def _warn(self, sentence: str) -> None:
        self.warning = sentence
        log.warning("%s", sentence)
