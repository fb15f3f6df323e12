"""A closed-loop load on one server with the request function of vLLM's own benchmark, and its results."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.benchmarks.figures import percentile
from tests.benchmarks.vllm_servers import COMPLETIONS
from tests.vllm.configs import MODEL

PROMPT_TOKENS = 32
ANSWER_TOKENS = 32


@dataclass(frozen=True)
class LoadResult:
    """The result of one load, in seconds except for `tokens_per_second`."""

    tokens_per_second: float
    first_token_p50: float
    first_token_p99: float
    next_token_p50: float
    next_token_p99: float


def import_client() -> None:
    """Import the client before a measurement, because the import takes twelve seconds."""
    import vllm.benchmarks.lib.endpoint_request_func  # noqa: F401


def run_load(url: str, clients: int, requests: int) -> LoadResult:
    """Run `clients` concurrent clients with `requests` requests in total.

    A client sends a request after each answer.
    """
    return asyncio.run(_run(url, clients, requests))


async def _run(url: str, clients: int, requests: int) -> LoadResult:
    waiting = iter(range(requests))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        started = time.perf_counter()
        answers = await asyncio.gather(*(_client(session, url, waiting) for _ in range(clients)))
        seconds = time.perf_counter() - started
    return summarize([answer for each in answers for answer in each], seconds)


async def _client(session: aiohttp.ClientSession, url: str, waiting: Iterator[int]) -> list[Any]:
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncInput, async_request_openai_completions

    answers = []
    for number in waiting:
        request = RequestFuncInput(
            prompt=[3 + (number + at) % 500 for at in range(PROMPT_TOKENS)],
            api_url=f"{url}{COMPLETIONS}",
            prompt_len=PROMPT_TOKENS,
            output_len=ANSWER_TOKENS,
            model=MODEL,
            ignore_eos=True,
            extra_body={"temperature": 0},
        )
        answer = await async_request_openai_completions(request, session)
        assert answer.success, answer.error
        assert answer.output_tokens == ANSWER_TOKENS
        answers.append(answer)
    return answers


def summarize(answers: list[Any], seconds: float) -> LoadResult:
    """Return the figures of all answers, which took `seconds` in total."""
    first = sorted(answer.ttft for answer in answers)
    following = sorted(wait for answer in answers for wait in answer.itl)
    return LoadResult(
        tokens_per_second=len(answers) * ANSWER_TOKENS / seconds,
        first_token_p50=percentile(first, 50),
        first_token_p99=percentile(first, 99),
        next_token_p50=percentile(following, 50),
        next_token_p99=percentile(following, 99),
    )
