"""The checkpoint's own tokenizer and chat template."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import AutoTokenizer

from gaudi_runtime.errors import ModelUnreadable


class TransformersTokenizer:
    """Text to tokens and back."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # the tokenizers library raises bare Exception for a damaged file
            raise ModelUnreadable(f"the tokenizer in {folder} does not load: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain prompt, with the special tokens that the model wants around it."""
        tokens: list[int] = self._tokenizer.encode(text)
        return tokens

    def apply_chat_template(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """Token ids of a conversation, ending with the assistant's opening; ValueError when the template refuses it."""
        try:
            text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except (TemplateError, TypeError, KeyError) as error:
            raise ValueError(f"the model's chat template refuses these messages: {error}") from error
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens

    def decode(self, tokens: list[int]) -> str:
        """Text of token ids without special tokens."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
