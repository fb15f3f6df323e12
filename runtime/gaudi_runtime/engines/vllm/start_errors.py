"""Errors of vLLM's start, converted to the runtime's errors with an explanation.

vLLM's errors are recognized by their text. An error that matches no row is reported with vLLM's text. vLLM itself
reports only that a child process failed, so a worker writes the reason to a file (StartFailure). The reasons are in
docs/how-to/troubleshoot.md, While pods warm up.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from gaudi_runtime.errors import (
    ConfigError,
    DeviceUnavailable,
    EngineUnsupported,
    ModelNotFound,
    ModelUnreadable,
    PlanImpossible,
    RuntimeStartError,
    UnsupportedModel,
)

MOST_KEPT_CHARACTERS = 1500


class StartFailure(BaseModel):
    """The error that ended a worker's start. `step` is the step that failed, `kind` the type of the error."""

    step: str
    kind: str
    message: str


@contextmanager
def record_errors(file: str, step: str) -> Iterator[None]:
    """Record an error of the block in `file`, unless the file already exists, and raise the error again."""
    try:
        yield
    except BaseException as error:
        # Record the error in a file, because vLLM itself reports only that a child process failed.
        kind = type(error).__name__
        _write_first_failure(Path(file), StartFailure(step=step, kind=kind, message=str(error)[:MOST_KEPT_CHARACTERS]))
        raise


def read_failure(file: Path) -> StartFailure | None:
    """Return the first start error that a worker of vLLM recorded; None if no worker recorded an error."""
    return StartFailure.model_validate_json(file.read_text()) if file.exists() else None


def _write_first_failure(file: Path, failure: StartFailure) -> None:
    # Publish the file with a hard link. Only the first failed rank can create this link, and the other ranks fail as a
    # consequence of that first failure.
    rank_file = file.with_suffix(f".{os.getpid()}")
    rank_file.write_text(failure.model_dump_json())
    try:
        file.hardlink_to(rank_file)
    except FileExistsError:
        pass
    finally:
        rank_file.unlink()


MOST_CHARACTERS = 700
NOISE = (
    r"\d+ validation errors? for \w+\s+(Value error, )?",
    r"\[type=\w+, input_value=[^\n]*",
    r"For further information visit \S+",
    r"Supported architectures: .*",
)
"""Text that pydantic prints around a sentence, including every argument, and vLLM's list of all models."""


@dataclass(frozen=True)
class KnownError:
    """A known error of vLLM's start: a pattern of its text, the runtime's error for it, and the advice."""

    pattern: str
    error: type[RuntimeStartError]
    advice: str


LACK_OF_MEMORY = (
    r"out of memory|can't allocate memory|No available memory|Available memory on node|^MemoryError|OutOfMemory"
    r"|larger than the available KV|Free memory on device|PT_DEVMEM|No enough memory"
)
"""The last two are errors of the Gaudi bridge: `PT_DEVMEM Allocation failed for size::N MB` does not name memory."""


CARD_FULL = r"PT_DEVMEM|No enough memory"


def is_out_of_memory(text: str) -> bool:
    """Return whether the text of a start error means that memory ran out."""
    return re.search(LACK_OF_MEMORY, text, re.IGNORECASE) is not None


KNOWN = (
    KnownError(r"Model architectures? .{0,300}(is|are) not supported|No model architectures|failed to be inspected"
               r"|does not recognize this architecture|Unrecognized model in",
               UnsupportedModel,
               "vLLM does not support this architecture: choose another model or another release of vLLM"),
    KnownError(r"No such file or directory: 'git'",
               EngineUnsupported, "vLLM's plugin runs git at start: use an image that contains git"),
    KnownError(r"Device acquire failed",
               DeviceUnavailable, "the card is broken, or another process uses it: check the cards of the node"),
    KnownError(CARD_FULL,
               PlanImpossible, "use more cards, a smaller model or weights with fewer bits"),
    KnownError(LACK_OF_MEMORY,
               PlanImpossible, "give the pod more memory, lower maxModelLen or use more cards"),
    KnownError(r"greater than the derived max_model_len",
               ConfigError, "lower maxModelLen, or set engine.settings VLLM_ALLOW_LONG_MAX_MODEL_LEN if the model "
                            "supports this length"),
    KnownError(r"LoRA rank|max_lora_rank", ConfigError, "raise model.lora.maxRank or choose another adapter"),
    KnownError(r"supplied chat template", ConfigError, "check the chat template in --chat-template"),
    KnownError(r"load the tokenizer|backend tokenizer|Can't load tokenizer",
               ModelNotFound, "the checkpoint needs a tokenizer that vLLM can read: tokenizer.json or tokenizer.model"),
    KnownError(r"^SafetensorError|Error while deserializing",
               ModelUnreadable, "a weight file is damaged: download the checkpoint again"),
    KnownError(r"^JSONDecodeError|not a valid JSON file",
               ModelUnreadable, "a file of the checkpoint is damaged: download the checkpoint again"),
    KnownError(r"Cannot find any model weights|Invalid repository ID|Repo id must be|not a local folder"
               r"|does not appear to have a file|^FileNotFoundError",
               ModelNotFound, "the checkpoint is not complete: download the checkpoint again"),
    KnownError(r"^\w*ValidationError", ConfigError,
               "check spec.engine, spec.engine.settings and spec.engine.extraArgs"),
)  # fmt: skip
"""The first matching row counts: the text of an error about memory or about an argument may match later rows, too."""


def explain_start_error(
    error: BaseException, failure: StartFailure | None, memory_facts: Callable[[], str] = lambda: ""
) -> RuntimeStartError:
    """Return the error to report for a failed start of vLLM.

    `failure` is the error that a worker recorded, which is more precise than `error`. `memory_facts` returns
    further facts as a clause, and is called only if memory was too small. An unknown error is only reported. It does
    not cause a restart, because the restart would fail with the same error.
    """
    if isinstance(error, RuntimeStartError):
        return error
    text = f"{failure.kind}: {failure.message}" if failure else f"{type(error).__name__}: {error}"
    for noise in NOISE:
        text = re.sub(noise, "", text)
    text = " ".join(text.split())
    step_clause = f" (error while {failure.step})" if failure else ""
    for entry in KNOWN:
        if re.search(entry.pattern, text, re.IGNORECASE | re.DOTALL):
            figures = memory_facts() if entry.error is PlanImpossible else ""
            advice = f"{figures}: {entry.advice}" if figures else entry.advice
            return entry.error(f"vLLM cannot start{step_clause}: {_shorten(text)} ({advice}).")
    return RuntimeStartError(f"vLLM cannot start{step_clause}: {_shorten(text)}. The log has the details.")


def _shorten(line: str) -> str:
    return line.rstrip(".") if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}..."
