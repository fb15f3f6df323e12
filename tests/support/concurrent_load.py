"""The load of many concurrent clients on one server. The lengths of prompts and answers are the same in every run."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import httpx

from gaudi_runtime.contract.report import WarmupReport

CLIENTS = 24
SECONDS = 240.0
"""The timeout of one answer in seconds. It is long, because the machine may be busy."""


GREEDY: dict[str, Any] = {"temperature": 0}
MIXED_SAMPLING: tuple[dict[str, Any], ...] = (
    GREEDY,
    {"temperature": 0.8},
    {"temperature": 0.8, "top_k": 20},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 0, "logprobs": 5},
    {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "logprobs": 1},
    {"temperature": 0.8, "seed": 7},
    {"temperature": 0, "presence_penalty": 0.5},
)
"""Request parameters of kinds of sampling that vLLM supports."""


@dataclass(frozen=True)
class LoadRequest:
    """The token counts of the prompt and the answer of one request, and its request parameters for sampling."""

    prompt: int
    answer: int
    sampling: dict[str, Any] = field(default_factory=lambda: GREEDY)

    @property
    def tokens(self) -> int:
        """The number of tokens that are computed for the request: all tokens except the last token of the answer."""
        return self.prompt + self.answer - 1


def mixed_requests(length: int, requests: int, sampling: tuple[dict[str, Any], ...] = (GREEDY,)) -> list[LoadRequest]:
    """Return random requests of up to `length` tokens with each kind of sampling in turn. Most requests are short."""
    chosen = random.Random(20261126)  # noqa: S311 - the same in every run
    prompts = [chosen.choice((chosen.randint(1, 16), chosen.randint(1, length - 2))) for _ in range(requests)]
    return [
        LoadRequest(prompt, chosen.randint(1, min(24, length - prompt)), sampling[number % len(sampling)])
        for number, prompt in enumerate(prompts)
    ]


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
    body = {"model": model, "prompt": prompt, "max_tokens": request.answer, "ignore_eos": True}
    answer = await connection.post("/v1/completions", json=body | request.sampling)
    answer.raise_for_status()
    assert answer.json()["usage"]["completion_tokens"] == request.answer
