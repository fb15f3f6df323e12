"""The chunks of all choices of one request, merged in the order in which the engine yields them."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from gaudi_runtime.engine_protocol.engine import GenerationChunk, SamplingParams, TokenEngine
from gaudi_runtime.http.metrics import RequestMetrics

Piece = tuple[int, GenerationChunk]


@dataclass(frozen=True)
class Choice:
    """One choice of a generation: its index in the answer, the token IDs of its prompt, and its sampling parameters."""

    index: int
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams
    echo_text: str = ""


@dataclass
class Usage:
    """The token counts of one generation: the tokens of its prompts, and the tokens of all its choices."""

    prompt_tokens: int
    completion_tokens: int = 0

    def body(self) -> dict[str, int]:
        """Return OpenAI's usage object."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


class Generation:
    """The chunks of all choices of one request. If the iteration ends early, every choice is cancelled."""

    def __init__(
        self,
        engine: TokenEngine,
        choices: Sequence[Choice],
        usage: Usage,
        metrics: RequestMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the arguments. `clock` returns monotonic seconds."""
        self.choices, self.usage, self.is_broken = choices, usage, False
        self._engine, self._metrics, self._clock = engine, metrics, clock
        self._arrival_time = clock()

    async def stream_pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield each chunk with the index of its choice, in order of arrival."""
        self._metrics.prompt_tokens.inc(self.usage.prompt_tokens)
        pieces = self._stream_choice(self.choices[0]) if len(self.choices) == 1 else self._merge_choices()
        async with aclosing(pieces):
            async for piece in pieces:
                self._count_tokens(len(piece[1].token_ids))
                yield piece

    def _count_tokens(self, tokens: int) -> None:
        if tokens and not self.usage.completion_tokens:
            self._metrics.first_token_seconds.observe(self._clock() - self._arrival_time)
        self.usage.completion_tokens += tokens
        self._metrics.generated_tokens.inc(tokens)

    async def _stream_choice(self, choice: Choice) -> AsyncGenerator[Piece, None]:
        if choice.echo_text:
            yield choice.index, GenerationChunk(choice.echo_text, ())
        async with aclosing(self._engine.generate(choice.prompt_token_ids, choice.sampling)) as chunks:
            async for chunk in chunks:
                yield choice.index, chunk

    async def _merge_choices(self) -> AsyncGenerator[Piece, None]:
        # The queue is limited, so that no choice runs far ahead of a slow client.
        queue: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue(maxsize=64)
        tasks = [asyncio.create_task(self._feed_queue(choice, queue)) for choice in self.choices]
        try:
            open_choices = len(tasks)
            while open_choices:
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    open_choices -= 1
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _feed_queue(self, choice: Choice, queue: asyncio.Queue[Piece | BaseException | None]) -> None:
        try:
            async with aclosing(self._stream_choice(choice)) as pieces:
                async for piece in pieces:
                    await queue.put(piece)
        except Exception as error:  # raised again by the reader of the queue
            await queue.put(error)
        else:
            await queue.put(None)
