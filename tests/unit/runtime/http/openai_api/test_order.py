"""A full server reads no body. A request gets its places after its body is read."""

import asyncio

from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.http.openai_api.test_load import SLOW, endless_stream, until
from tests.unit.runtime.serving import Served, served

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n"


async def unfinished(api: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of a request without the body, and return the connection."""
    url = api.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(HEAD)
    return reader, writer


async def test_full_server_does_not_wait_for_a_body() -> None:
    full = sim_config(SLOW, max_num_seqs=1, serving={"max_queued_requests": 0})
    async with served(full) as api, asyncio.timeout(20):
        stream = await endless_stream(api)
        reader, writer = await unfinished(api)
        assert b" 429 " in await reader.readline()
        writer.close()
        await stream.close()


async def test_request_is_answered_while_a_body_is_incomplete() -> None:
    async with served(sim_config(max_num_seqs=1, serving={"max_queued_requests": 0})) as api, asyncio.timeout(20):
        _, writer = await unfinished(api)
        assert (await api.openai.completions.create(model="echo", prompt="a")).choices[0].text == "a"
        writer.close()
        await until(lambda: api.metric("gaudi_requests_total", endpoint="/v1/completions", code="499") == 1)
