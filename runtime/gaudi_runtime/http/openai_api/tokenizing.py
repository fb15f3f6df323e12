"""Conversion of text to tokens for the model port: in one thread, with limits of length and time."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gaudi_runtime.engine_protocol.engine import ChatTokenizer
from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded

TOKENIZING_SECONDS = 30.0
"""The time from a request's admission to its tokens, including the wait for others. Megabytes take a second."""

T = TypeVar("T")
R = TypeVar("R")


class RequestTokenizer:
    """The tokenizer of one engine. `max_model_len` is in tokens, and `seconds` limits the time of one request."""

    def __init__(self, tokenizer: ChatTokenizer, max_model_len: int, seconds: float = TOKENIZING_SECONDS) -> None:
        self._tokenizer, self._seconds = tokenizer, seconds
        self._max_model_len, self._max_characters = max_model_len, max_model_len * tokenizer.longest_token
        # The tokenizer has one thread of its own: tokenizers are not thread-safe, and a long prompt would block the
        # event loop.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    async def encode_prompts(self, prompts: Sequence[str | Sequence[int]]) -> list[Sequence[int]]:
        """Return the token IDs of each prompt. A prompt of token IDs is returned unchanged."""
        self._check_length(max((len(prompt) for prompt in prompts if isinstance(prompt, str)), default=0))
        return await self._run_with_timeout(self._encode, prompts)

    async def encode_chat(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """Return the token IDs of a chat, up to the start of the answer.

        Raises InvalidRequest if the template rejects the chat.
        """
        self._check_length(sum(len(str(message["content"])) for message in messages))
        try:
            return await self._run_with_timeout(self._tokenizer.apply_chat_template, messages)
        except ValueError as error:
            raise InvalidRequest(f"The chat template refuses the messages: {error}", "messages") from error

    def _encode(self, prompts: Sequence[str | Sequence[int]]) -> list[Sequence[int]]:
        return [self._tokenizer.encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]

    def _check_length(self, characters: int) -> None:
        # The check uses only the number of characters. Tokenizing such a long text would block the tokenizer thread for
        # seconds.
        if characters > self._max_characters:
            raise InvalidRequest(
                f"The prompt has {characters} characters, which cannot fit into the model length of "
                f"{self._max_model_len} tokens. Shorten the prompt.",
                code="context_length_exceeded",
            )

    async def _run_with_timeout(self, tokenize: Callable[[T], R], tokenizer_input: T) -> R:
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._executor, tokenize, tokenizer_input)
        except TimeoutError as error:
            raise Overloaded(
                f"The prompt was not tokenized within {self._seconds:.0f} s. Shorten the prompt, or try again later.",
                code="tokenizing_too_slow",
            ) from error
