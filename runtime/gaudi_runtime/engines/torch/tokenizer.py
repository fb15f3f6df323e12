"""Conversion of text to tokens, and of tokens to text one token at a time, with the checkpoint's tokenizer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer

from gaudi_runtime.engines.stop_strings import StopStrings
from gaudi_runtime.errors import ModelUnreadable


class TransformersTokenizer:
    """The checkpoint's own tokenizer, which converts text to tokens and back."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:
            # Catch Exception, because the tokenizers library raises no more specific error for a damaged file.
            raise ModelUnreadable(f"the tokenizer in {folder} cannot be loaded: {error}") from error
        # A vocabulary entry has at least as many characters as the text of its token, so its length is an upper limit.
        self.longest_token = max(len(token) for token in self._tokenizer.get_vocab())

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a prompt, including the model's special tokens."""
        return list(self._tokenizer.encode(text))

    def apply_chat_template(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """Return the token ids of a chat and the start of the answer. Raises ValueError if the template rejects it."""
        try:
            text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except (TemplateError, TypeError, KeyError) as error:
            raise ValueError(f"the model's chat template rejects these messages: {error}") from error
        # The chat template has already added the special tokens.
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: list[int]) -> str:
        """Return the text of these token ids, without special tokens."""
        # Do not clean up spaces. Otherwise the next token could change text that was already sent.
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


Decode = Callable[[list[int]], str]
"""Returns the text of token ids, without special tokens."""

INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """A converter of one answer's tokens to text. It holds back text that may be part of a stop string.

    Every returned part contains only complete characters. All returned parts together are the decoded answer up to the
    first stop string.
    """

    def __init__(self, decode: Decode, stop_strings: tuple[str, ...]) -> None:
        self._decode, self._stop_strings = decode, StopStrings(stop_strings)
        self._tokens: list[int] = []
        self._returned_text = ""

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stop_strings.stopped

    def push(self, token: int) -> str:
        """Return the text that is final after this token; it is often empty. Sets `is_stopped` at a stop string."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        # A character may consist of several tokens. The text ends with the replacement character until the last of
        # these tokens arrives.
        return "" if text.endswith(INCOMPLETE) else self._stop_strings.push(self._read_new_text(text))

    def flush(self) -> str:
        """Return the remaining text at the end of the answer, including incomplete characters."""
        text = self._stop_strings.push(self._read_new_text(self._decode(self._tokens)))
        return text if self.is_stopped else text + self._stop_strings.flush()

    def _read_new_text(self, text: str) -> str:
        """Return the text that is new since the last call."""
        new_text = text[len(self._returned_text) :]
        # Keep only the last token. Decoding the whole answer for each new token would take quadratic time. The last
        # token is needed, because the text of the next token depends on it.
        self._tokens = self._tokens[-1:]
        self._returned_text = self._decode(self._tokens)
        return new_text
