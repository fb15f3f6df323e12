"""The journal of a recipe cache: the compiled buckets, and the time of each step.

The journal is a text file next to the recipes. It is read once at start, and each step appends a line. The first line
contains the key, and each other line is one step in JSON. If a step has several lines, the last line counts
(docs/how-to/recipe-cache.md).
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
from gaudi_runtime.warmup.estimate import EstimateStepKind, Step

log = logging.getLogger("gaudi_runtime.warmup")

FORMAT = 1
JOURNAL_PREFIX = "warmup-"
# A larger file cannot be a journal, because a plan has at most 250,000 buckets.
MAX_JOURNAL_BYTES = 64 * 1024 * 1024


class JournalUnusable(Exception):
    """The error that a text is not a journal of this key. The message is the reason, as the end of a sentence."""


@dataclass(frozen=True)
class JournalRecipes:
    """The seconds of all warm-up steps with one recipe key, in this start or an earlier start."""

    seconds: Mapping[Step, float]

    def has_recipe(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Return True if the cache has the recipe of this shape."""
        return (EstimateStepKind.COMPILE, phase, bucket) in self.seconds

    def step_kind(self, phase: BucketPhase, bucket: Bucket) -> EstimateStepKind:
        """Return the kind of the shape's warm-up step: load its recipe or compile it."""
        return EstimateStepKind.LOAD if self.has_recipe(phase, bucket) else EstimateStepKind.COMPILE

    def saved_seconds(self, step: Step, seconds: float) -> float:
        """Return the compile seconds that loading a recipe saved, if the step took `seconds`.

        Return 0 for other kinds of steps. The compile time comes from the journal, so another pod may have measured it.
        """
        kind, phase, bucket = step
        return self.seconds[EstimateStepKind.COMPILE, phase, bucket] - seconds if kind is EstimateStepKind.LOAD else 0.0

    def merge_with(self, other: "JournalRecipes") -> "JournalRecipes":
        """Return the steps of `self` and `other`. For a common step, use the seconds of `self`."""
        return JournalRecipes({**other.seconds, **self.seconds})


NOTHING_KNOWN = JournalRecipes({})


def journal_name(key: RecipeKey) -> str:
    """Return the file name of the journal of a recipe key."""
    return f"{JOURNAL_PREFIX}{key.digest}.jsonl"


def format_journal_header(key: RecipeKey) -> str:
    """Format the first line of the journal of a recipe key."""
    # The header contains what a recipe depends on. It does not contain the plan, because a new bucket would then
    # discard all recipes.
    return _format_json({"format": FORMAT, "key": asdict(key)}) + "\n"


def format_journal_step(step: Step, seconds: float) -> str:
    """Format a warm-up step as a line of the journal."""
    kind, phase, bucket = step
    return _format_json({"step": kind, "phase": phase, "bucket": list(bucket), "seconds": round(seconds, 6)}) + "\n"


def parse_journal(text: str, key: RecipeKey) -> JournalRecipes:
    """Parse the steps of a journal. Raises JournalUnusable with the reason."""
    # An incomplete last line is ignored: a killed process could not finish the line.
    header, *lines = text.split("\n")[:-1] or [""]
    if header + "\n" != format_journal_header(key):
        raise JournalUnusable("the first line does not match this software, card, model, dtype and parallelism")
    return JournalRecipes(dict(_parse_step(number, line) for number, line in enumerate(lines, start=2)))


def format_journal(recipes: JournalRecipes, key: RecipeKey) -> str:
    """Format the shortest journal that contains these steps."""
    return format_journal_header(key) + "".join(
        format_journal_step(step, seconds) for step, seconds in recipes.seconds.items()
    )


def _parse_step(line_number: int, text: str) -> tuple[Step, float]:
    try:
        row = json.loads(text)
        step = (EstimateStepKind(row["step"]), BucketPhase(row["phase"]), _parse_bucket(row["bucket"]))
        seconds = float(row["seconds"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise JournalUnusable(f"line {line_number} is not a step of a warm-up: {text[:80]!r}") from error
    if not math.isfinite(seconds) or seconds < 0:
        raise JournalUnusable(f"line {line_number} has negative or infinite seconds: {text[:80]!r}")
    return step, seconds


def _parse_bucket(numbers: list[int]) -> Bucket:
    batch_size, query_len, num_blocks = numbers
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(numbers)
    return Bucket(batch_size, query_len, num_blocks)


def _format_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


class Journal:
    """The journal file of this container: contains the steps of earlier starts, and gets the steps of this start.

    An unusable journal never fails a warm-up. If the journal cannot be read or written, the estimate is less exact, and
    `warning` describes the problem.
    """

    def __init__(self, folder: str | None, key: RecipeKey | None) -> None:
        """Open the journal in the folder of the recipes. Without a folder or a key, no journal is written."""
        self.recipes = NOTHING_KNOWN
        self.warning: str | None = None
        self._file: TextIO | None = None
        if folder is not None and key is not None:
            self._open(Path(folder) / journal_name(key), key)

    @property
    def is_open(self) -> bool:
        """Whether steps are written to the journal file."""
        return self._file is not None

    def write(self, step: Step, seconds: float) -> None:
        """Append a step to the journal."""
        if self._file is None:
            return
        try:
            self._file.write(format_journal_step(step, seconds))
            # Each line is flushed immediately, so that a killed process loses at most one line.
            self._file.flush()
        except OSError as error:
            self._warn(
                f"The warm-up journal {self._file.name} cannot be written: {error.strerror}. Later steps are lost."
            )
            self._file = None

    def close(self) -> None:
        """Close the journal file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, key: RecipeKey) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.recipes = self._read(path, key)
            # The rename is atomic, so a reader sees either the old file or the new file.
            new_path = path.with_suffix(".new")
            new_path.write_text(format_journal(self.recipes, key), encoding="utf-8")
            new_path.replace(path)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            self._warn(f"The warm-up journal {path} cannot be used: {error.strerror}.")

    def _read(self, path: Path, key: RecipeKey) -> JournalRecipes:
        try:
            with path.open("rb") as file:
                content = file.read(MAX_JOURNAL_BYTES + 1)
            if len(content) > MAX_JOURNAL_BYTES:
                raise JournalUnusable(f"the file is larger than {MAX_JOURNAL_BYTES} bytes")
            return parse_journal(content.decode(), key)
        except FileNotFoundError:
            return NOTHING_KNOWN
        except UnicodeDecodeError:
            self._warn_ignored(path, "the file is not UTF-8 text")
        except JournalUnusable as error:
            self._warn_ignored(path, str(error))
        return NOTHING_KNOWN

    def _warn_ignored(self, path: Path, reason: str) -> None:
        self._warn(f"The warm-up journal {path} is ignored and replaced: {reason}.")

    def _warn(self, sentence: str) -> None:
        self.warning = sentence
        log.warning("%s", sentence)
