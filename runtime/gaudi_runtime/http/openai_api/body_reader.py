"""The reader of request bodies, which limits the bytes of one body and of all bodies together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from gaudi_runtime.http.openai_api.errors import Overloaded

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_TOTAL_BYTES = 16 * MAX_BODY_BYTES
"""The most bytes of all bodies that are being read and checked. An admitted request is limited by its places."""
SMALL_BYTES = 64 * 1024
"""The most bytes of a body that is not counted if it arrives in one part. A head may have as many bytes."""


class BodyReader:
    """The bodies that are being read and checked. Only the event loop may use this class.

    If these bodies have more than MAX_TOTAL_BYTES together, the largest body is given up. So clients that send large
    bodies slowly cannot keep out clients that send small bodies.
    """

    def __init__(self) -> None:
        self._sizes = dict[asyncio.Timeout, int]()

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[bytes]:
        """Yield a whole body, which counts until the end of the block.

        Raises Overloaded if the body is given up, HTTPException if it is too large, and ClientDisconnect.
        """
        part, is_complete = await _receive_part(receive)
        if is_complete and len(part) <= SMALL_BYTES:
            yield part
            return
        try:
            async with asyncio.timeout(None) as reading:
                self._sizes[reading] = 0
                try:
                    yield await self._join_parts(reading, receive, part, is_complete=is_complete)
                finally:
                    del self._sizes[reading]
        except TimeoutError as error:
            raise Overloaded(
                f"The server is reading {MAX_TOTAL_BYTES} bytes of requests, and gave up the largest request. Try "
                "again later.",
                code="bodies_too_large",
            ) from error

    async def _join_parts(self, reading: asyncio.Timeout, receive: Receive, part: bytes, *, is_complete: bool) -> bytes:
        """Return a whole body, of which the first part was received."""
        parts = [part]
        self._count_bytes(reading, len(part))
        while not is_complete:
            part, is_complete = await _receive_part(receive)
            parts.append(part)
            self._count_bytes(reading, len(part))
        return b"".join(parts)

    def _count_bytes(self, reading: asyncio.Timeout, received_bytes: int) -> None:
        # Bytes are counted while the body is read, because the head may state no length or a wrong length.
        self._sizes[reading] += received_bytes
        if self._sizes[reading] > MAX_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
        if sum(self._sizes.values()) > MAX_TOTAL_BYTES:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self._sizes[largest] = 0  # its task frees the bytes as soon as it runs
            largest.reschedule(0)


async def _receive_part(receive: Receive) -> tuple[bytes, bool]:
    """Return a part of a body, and whether it is the last one. Raises ClientDisconnect."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), not message.get("more_body", False)
