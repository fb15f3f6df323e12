"""Conversion of text to tokens by the checkpoint's own tokenizer, and of tokens to text, one at a time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer

from gaudi_runtime.engines.stop_strings import StopStrings
from gaudi_runtime.errors import ModelUnreadable


class TransformersTokenizer:
    """Converts text to tokens and back by the checkpoint's own tokenizer."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:
            # The tokenizers library raises a bare Exception for a damaged file.
            raise ModelUnreadable(f"the tokenizer in {folder} cannot be loaded: {error}") from error
        # The vocabulary's notation has one or more characters for each character of text.
        self.longest_token = max(len(token) for token in self._tokenizer.get_vocab())

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a plain prompt, with the model's special tokens."""
        return list(self._tokenizer.encode(text))

    def apply_chat_template(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """Return the token ids of a chat and the assistant's opening. Raises ValueError if the template refuses it."""
        try:
            text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except (TemplateError, TypeError, KeyError) as error:
            raise ValueError(f"the model's chat template refuses these messages: {error}") from error
        # The template has added the special tokens itself.
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: list[int]) -> str:
        """Return the text of token ids without special tokens."""
        # Not cleaned up, because the next token could then change text that was already sent.
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


Decode = Callable[[list[int]], str]
"""Returns the text of token ids, without special tokens."""

INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """Converts the tokens of one answer to text, without text that may be part of a stop string.

    Every returned part has complete characters only.
    All returned parts together are the decoded answer up to the first stop string.
    """

    def __init__(self, decode: Decode, stop: tuple[str, ...]) -> None:
        self._decode, self._stops = decode, StopStrings(stop)
        self._tokens: list[int] = []
        self._shown = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.stopped

    def push(self, token: int) -> str:
        """Return the new text that is certain after this token, often empty; sets `stopped` at a stop string."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        # A character of several tokens decodes to the replacement character until its last token arrives.
        return "" if text.endswith(INCOMPLETE) else self._stops.push(self._advance(text))

    def flush(self) -> str:
        """Return the rest at the end of the answer, including incomplete characters."""
        text = self._stops.push(self._advance(self._decode(self._tokens)))
        return text if self.stopped else text + self._stops.flush()

    def _advance(self, text: str) -> str:
        """Return the new text since the last call."""
        new = text[len(self._shown) :]
        # Older tokens are dropped, because decoding a whole long answer each time would take quadratic time. The last
        # token is kept, because the text of a token depends on the token before it.
        self._tokens = self._tokens[-1:]
        self._shown = self._decode(self._tokens)
        return new
