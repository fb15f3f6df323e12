"""A load of many clients at once on one runtime: prompts and answers of mixed lengths, the same in every run."""

import asyncio
import random
from dataclasses import dataclass

import httpx

from gaudi_runtime.contract.config import RuntimeConfig
from tests.unit.runtime.runtime_process import PATIENCE
from tests.vllm.configs import MODEL

CLIENTS = 12


@dataclass(frozen=True)
class Asked:
    """One request: tokens of its prompt and of its answer."""

    prompt: int
    answer: int

    @property
    def tokens(self) -> int:
        """Tokens that are computed for it: of the answer all but the last."""
        return self.prompt + self.answer - 1


def mixed(config: RuntimeConfig, requests: int) -> list[Asked]:
    """Requests from one token up to `maxModelLen`, short ones most often."""
    chosen, length = random.Random(20261126), config.limits.max_model_len  # noqa: S311 - the same in every run
    prompts = [chosen.choice((chosen.randint(1, 16), chosen.randint(1, length - 2))) for _ in range(requests)]
    return [Asked(prompt, chosen.randint(1, min(24, length - prompt))) for prompt in prompts]


def ask(url: str, requests: list[Asked]) -> None:
    """Send every request, CLIENTS at once. Raises httpx.HTTPError for one that is not answered in full."""
    asyncio.run(_ask(url, requests))


async def _ask(url: str, requests: list[Asked]) -> None:
    waiting = iter(enumerate(requests))

    async def client() -> None:
        for number, asked in waiting:
            await _complete(connection, number, asked)

    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as connection:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def _complete(connection: httpx.AsyncClient, number: int, asked: Asked) -> None:
    prompt = [3 + (number * 7 + at) % 500 for at in range(asked.prompt)]
    body = {"model": MODEL, "prompt": prompt, "max_tokens": asked.answer, "ignore_eos": True, "temperature": 0}
    answer = await connection.post("/v1/completions", json=body)
    answer.raise_for_status()
    assert answer.json()["usage"]["completion_tokens"] == asked.answer
