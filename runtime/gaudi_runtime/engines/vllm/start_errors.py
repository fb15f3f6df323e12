"""What vLLM says when it cannot start, as one of our own errors with a sentence (docs/vllm.md, When it cannot start).

vLLM's errors are known by their words only; what no row knows is a crash with vLLM's last line.
"""

import re
from dataclasses import dataclass

from gaudi_runtime.engines.vllm.start_failure import StartFailure
from gaudi_runtime.errors import (
    ConfigError,
    EngineLost,
    ModelNotFound,
    ModelUnreadable,
    PlanImpossible,
    RuntimeStartError,
    UnsupportedModel,
)

MOST_CHARACTERS = 700


@dataclass(frozen=True)
class Known:
    """An error of vLLM by its words, what it is for us, and what to do."""

    words: str
    error: type[RuntimeStartError]
    advice: str


KNOWN = (
    Known(r"architectures? .* (is|are) not supported|No model architectures|does not recognize this architecture",
          UnsupportedModel, "vLLM does not serve this architecture: choose another model or another release of vLLM"),
    Known(r"max_model_len .* greater than|maximum model length|longer than the maximum",
          ConfigError, "lower limits.maxModelLen, or set model.allowLongMaxModelLen if the model can take it"),
    Known(r"LoRA rank|max_lora_rank|max_loras", ConfigError, "raise the greatest LoRA rank or choose another adapter"),
    Known(r"chat.?template", ConfigError, "look at the chat template of the checkpoint or of --chat-template"),
    Known(r"tokenizer", ModelNotFound, "the checkpoint needs tokenizer.json or tokenizer.model"),
    Known(r"safetensors|SafetensorError|HeaderTooLarge|InvalidHeader|MetadataIncomplete|Error while deserializing",
          ModelUnreadable, "a weight file is damaged: download the checkpoint again"),
    Known(r"out of memory|can't allocate memory|Available memory|No available memory|OutOfMemory|than the available KV",
          PlanImpossible, "give the pod more memory, lower maxModelLen or use more cards"),
    Known(r"Cannot find any model weights|no such file|not a local folder|FileNotFoundError|is not a valid model id",
          ModelNotFound, "the folder holds no complete checkpoint"),
)  # fmt: skip


def why_not_started(error: BaseException, failure: StartFailure | None) -> RuntimeStartError:
    """The error to report. `failure` is what a worker left behind, and knows more than `error`."""
    if isinstance(error, RuntimeStartError):
        return error
    text = f"{failure.kind}: {failure.message}" if failure else f"{type(error).__name__}: {error}"
    where = f" when {failure.step}" if failure else ""
    for known in KNOWN:
        if re.search(known.words, text, re.IGNORECASE | re.DOTALL):
            return known.error(f"vLLM cannot start{where}: {_shown(text)} ({known.advice}).")
    return EngineLost(f"vLLM cannot start{where}: {_shown(text)}; the log has the whole story.")


def _shown(text: str) -> str:
    """One line, and not the page that a validation error prints."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}..."
