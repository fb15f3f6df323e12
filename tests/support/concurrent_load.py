"""A load of many clients at once on one server: prompts and answers of mixed lengths, the same in every run."""

import asyncio
import random
from dataclasses import dataclass

import httpx

from gaudi_runtime.contract.report import WarmupReport

CLIENTS = 12
SECONDS = 240.0
"""For one answer, on a machine with other work."""


@dataclass(frozen=True)
class Asked:
    """One request: tokens of its prompt and of its answer."""

    prompt: int
    answer: int

    @property
    def tokens(self) -> int:
        """Tokens that are computed for it: of the answer all but the last."""
        return self.prompt + self.answer - 1


def mixed(length: int, requests: int) -> list[Asked]:
    """Requests from one token up to `length`, short ones most often."""
    chosen = random.Random(20261126)  # noqa: S311 - the same in every run
    prompts = [chosen.choice((chosen.randint(1, 16), chosen.randint(1, length - 2))) for _ in range(requests)]
    return [Asked(prompt, chosen.randint(1, min(24, length - prompt))) for prompt in prompts]


def ask(url: str, model: str, requests: list[Asked]) -> None:
    """Send every request, CLIENTS at once. Raises httpx.HTTPError for one that is not answered."""
    asyncio.run(_ask(url, model, requests))


def counted(report: WarmupReport) -> int:
    """Tokens of all steps in a report, which follows the steps by up to two seconds."""
    return report.served.prompt.real_tokens + report.served.decode.real_tokens


async def _ask(url: str, model: str, requests: list[Asked]) -> None:
    waiting = iter(enumerate(requests))

    async def client() -> None:
        for number, asked in waiting:
            await _complete(connection, model, number, asked)

    async with httpx.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as connection:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def _complete(connection: httpx.AsyncClient, model: str, number: int, asked: Asked) -> None:
    prompt = [3 + (number * 7 + at) % 250 for at in range(asked.prompt)]
    body = {"model": model, "prompt": prompt, "max_tokens": asked.answer, "ignore_eos": True, "temperature": 0}
    answer = await connection.post("/v1/completions", json=body)
    answer.raise_for_status()
    assert answer.json()["usage"]["completion_tokens"] == asked.answer
