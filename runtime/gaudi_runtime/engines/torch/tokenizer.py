"""Text to tokens by the checkpoint's own tokenizer, and tokens back to text, one at a time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer

from gaudi_runtime.engines.stop_strings import StopStrings
from gaudi_runtime.errors import ModelUnreadable


class TransformersTokenizer:
    """Text to tokens and back."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:
            # The tokenizers library raises bare Exception for a damaged file.
            raise ModelUnreadable(f"the tokenizer in {folder} does not load: {error}") from error
        # As they are written in the vocabulary, where a character of the text has one or more.
        self.longest_token = max(len(token) for token in self._tokenizer.get_vocab())

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain prompt, with the special tokens that the model wants around it."""
        return list(self._tokenizer.encode(text))

    def apply_chat_template(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """Token ids of a conversation, ending with the assistant's opening; ValueError when the template refuses it."""
        try:
            text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except (TemplateError, TypeError, KeyError) as error:
            raise ValueError(f"the model's chat template refuses these messages: {error}") from error
        # The template has written the special tokens itself.
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: list[int]) -> str:
        """Text of token ids without special tokens."""
        # Cleaning would change text that was already handed out when the next token comes.
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


Decode = Callable[[list[int]], str]
"""Text of token ids, special tokens left out."""

INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """The text of one answer: whole characters only, and nothing that may turn out to be a stop string.

    What it hands out, put together, is the decoded answer up to the first stop string.
    """

    def __init__(self, decode: Decode, stop: tuple[str, ...]) -> None:
        self._decode, self._stops = decode, StopStrings(stop)
        self._tokens: list[int] = []
        self._shown = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come."""
        return self._stops.stopped

    def push(self, token: int) -> str:
        """The new text that this token makes certain, often empty; sets `stopped` at a stop string."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        # A character of several tokens decodes to the replacement character until its last one is there.
        return "" if text.endswith(INCOMPLETE) else self._stops.push(self._advance(text))

    def flush(self) -> str:
        """What is left at the end of the answer, incomplete characters included."""
        text = self._stops.push(self._advance(self._decode(self._tokens)))
        return text if self.stopped else text + self._stops.flush()

    def _advance(self, text: str) -> str:
        """New text since the last call."""
        new = text[len(self._shown) :]
        # Older tokens are dropped, or a long answer would cost the square of its length. The last one stays, for
        # tokenizers join: what a token is in text depends on the one before it.
        self._tokens = self._tokens[-1:]
        self._shown = self._decode(self._tokens)
        return new
