"""The journal of a recipe cache as a file beside the recipes: read once at start, a line appended per step."""

import logging
from pathlib import Path
from typing import TextIO

from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.warmup.pace import Step
from gaudi_runtime.warmup.recipes import (
    MAX_JOURNAL_BYTES,
    NOTHING_KNOWN,
    JournalUnusable,
    Recipes,
    journal_name,
    line,
    parse,
    text_of,
)

log = logging.getLogger("gaudi_runtime.warmup")


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
        """Keep a step; whole lines only, so that a kill loses at most the one in work."""
        if self._file is None:
            return
        try:
            self._file.write(line(step, seconds))
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
            _replace(path, text_of(self.recipes, key))
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
        self._warn(f"The warm-up journal {path} is ignored and begun anew: {reason}.")

    def _warn(self, sentence: str) -> None:
        self.warning = sentence
        log.warning("%s", sentence)


def _replace(path: Path, text: str) -> None:
    """Write a new file and put it in the place of the old one: a reader sees the one or the other."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
