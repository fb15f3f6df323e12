"""Completions of the sim engine without a server."""

from httpx import ASGITransport, AsyncClient

from gaudi_runtime.engine_protocol.engine import Engine


async def complete(engine: Engine, prompt: str, max_tokens: int = 2) -> None:
    """Complete a prompt, and raise the error of the engine."""
    body = {"model": "echo", "prompt": prompt, "max_tokens": max_tokens}
    async with (
        engine.application() as app,
        AsyncClient(transport=ASGITransport(app=app), base_url="http://pod", timeout=60) as client,
    ):
        (await client.post("/v1/completions", json=body)).raise_for_status()
