"""The load of many concurrent clients on one server. The lengths of prompts and answers are the same in every run."""

import asyncio
import random
from dataclasses import dataclass

import httpx

from gaudi_runtime.contract.report import WarmupReport

CLIENTS = 12
SECONDS = 240.0
"""The timeout of one answer in seconds. It is long, because the machine may be busy."""


@dataclass(frozen=True)
class LoadRequest:
    """The token counts of the prompt and the answer of one request."""

    prompt: int
    answer: int

    @property
    def tokens(self) -> int:
        """The number of tokens that are computed for the request: all tokens except the last token of the answer."""
        return self.prompt + self.answer - 1


def mixed_requests(length: int, requests: int) -> list[LoadRequest]:
    """Return random requests of up to `length` tokens. Most of the requests are short."""
    chosen = random.Random(20261126)  # noqa: S311 - the same in every run
    prompts = [chosen.choice((chosen.randint(1, 16), chosen.randint(1, length - 2))) for _ in range(requests)]
    return [LoadRequest(prompt, chosen.randint(1, min(24, length - prompt))) for prompt in prompts]


def send_requests(url: str, model: str, requests: list[LoadRequest]) -> None:
    """Send all requests from CLIENTS concurrent clients. Raises httpx.HTTPError if a request fails."""
    asyncio.run(_send_requests(url, model, requests))


def count_tokens(report: WarmupReport) -> int:
    """Return the real tokens of all steps in a report. The report may lack the steps of the last two seconds."""
    return report.served.prompt.real_tokens + report.served.decode.real_tokens


async def _send_requests(url: str, model: str, requests: list[LoadRequest]) -> None:
    waiting = iter(enumerate(requests))

    async def client() -> None:
        for number, request in waiting:
            await _complete(connection, model, number, request)

    async with httpx.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as connection:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def _complete(connection: httpx.AsyncClient, model: str, number: int, request: LoadRequest) -> None:
    prompt = [3 + (number * 7 + at) % 250 for at in range(request.prompt)]
    body = {"model": model, "prompt": prompt, "max_tokens": request.answer, "ignore_eos": True, "temperature": 0}
    answer = await connection.post("/v1/completions", json=body)
    answer.raise_for_status()
    assert answer.json()["usage"]["completion_tokens"] == request.answer
