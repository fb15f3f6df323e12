"""Request: a sequence with its consumer; turns tokens into chunks and knows when the answer ends."""

import asyncio

from gaudi_runtime.engines.protocol import GenerationChunk
from gaudi_runtime.engines.torch.detokenizer import Detokenizer
from gaudi_runtime.engines.torch.sequence import Sequence


class Request:
    """One running `generate`; `chunks` carries its pieces, or the exception that ended it."""

    def __init__(self, sequence: Sequence, detokenizer: Detokenizer, stop_tokens: frozenset[int]) -> None:
        self.sequence = sequence
        self.chunks: asyncio.Queue[GenerationChunk | Exception] = asyncio.Queue()
        self._detokenizer = detokenizer
        self._stop_tokens = frozenset() if sequence.sampling.ignore_eos else stop_tokens

    def accept(self, token: int) -> GenerationChunk:
        """Append a token to the sequence and say what is new; the last chunk has a finish reason."""
        self.sequence.tokens.append(token)
        if token in self._stop_tokens:
            return GenerationChunk(self._detokenizer.flush(), (token,), "stop")
        text = self._detokenizer.push(token)
        if not self._detokenizer.stopped and self.sequence.generated >= self.sequence.sampling.max_tokens:
            text += self._detokenizer.flush()
            return GenerationChunk(text, (token,), "stop" if self._detokenizer.stopped else "length")
        return GenerationChunk(text, (token,), "stop" if self._detokenizer.stopped else None)
