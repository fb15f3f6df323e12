"""The requests of a hardware trial: every planned length and kind of sampling, one at a time and concurrently."""

import asyncio
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Self

import httpx

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.contract.report import BucketPhase, WarmupReport
from gaudi_runtime.hardware.report import ReportTrialTraffic

ANSWER_TOKENS = 16
MOST_LENGTHS = 24
MOST_AT_ONCE = 32
REQUEST_SECONDS = 600.0
"""The timeout of a request. A shape that compiles while serving may take minutes, and is counted, not aborted."""
COMMON_TOKENS = 200
"""Token ids below this are in every vocabulary."""

Prompt = tuple[int, ...]
Sampling = Mapping[str, object]

GREEDY: Sampling = {"temperature": 0}
_RANDOM: Sampling = {"temperature": 1}
SAMPLINGS: tuple[Sampling, ...] = (
    GREEDY,
    _RANDOM,
    {**_RANDOM, "top_k": 20},
    {**_RANDOM, "top_p": 0.9},
    {**_RANDOM, "seed": 7},
    {**GREEDY, "logprobs": 5},
    {**GREEDY, "presence_penalty": 0.5},
    {**_RANDOM, "frequency_penalty": 0.5, "repetition_penalty": 1.2},
    {**GREEDY, "structured_outputs": {"choice": ["a word", "another word"]}, "ignore_eos": False},
)
"""The parameters of requests for each kind of sampling that warm-up prepares."""


def planned_request_prompts(plan: BucketPlan, config: RuntimeConfig, kv_blocks: int) -> list[Prompt]:
    """Return one prompt for each planned query length, so that the prompt fills the bucket of this length."""
    limits = config.limits
    max_prompt_tokens = min(limits.max_model_len, kv_blocks * limits.block_size) - ANSWER_TOKENS
    # vLLM splits a longer prompt. The later parts need buckets with a context, and some plans have no such buckets.
    max_prompt_tokens = min(max_prompt_tokens, limits.max_num_batched_tokens)
    queries = sorted({bucket.query_len for bucket in plan.buckets_of(BucketPhase.PROMPT) if bucket.num_blocks == 0})
    previous_queries = [0, *queries]
    fitting_queries = [
        (previous, query)
        for previous, query in zip(previous_queries, queries, strict=False)
        if previous + 1 <= max_prompt_tokens
    ]
    step = max(1, math.ceil(len(fitting_queries) / MOST_LENGTHS))
    prompt_lengths = {min(query, max_prompt_tokens) for _, query in (*fitting_queries[::step], *fitting_queries[-1:])}
    return [_make_prompt(number, length) for number, length in enumerate(sorted(prompt_lengths))]


def request_concurrency_levels(config: RuntimeConfig, prompts: Sequence[Prompt], kv_blocks: int) -> list[int]:
    """Return the numbers of concurrent requests in a hardware trial: 1, 2, 4 and so on, limited by the KV cache."""
    longest_tokens = max(map(len, prompts), default=1) + ANSWER_TOKENS
    max_cached_prompts = kv_blocks // math.ceil(longest_tokens / config.limits.block_size)
    max_concurrency = max(1, min(config.limits.max_num_seqs, MOST_AT_ONCE, max_cached_prompts))
    return sorted({max_concurrency, *(2**power for power in range(max_concurrency.bit_length()))})


def _make_prompt(number: int, length: int) -> Prompt:
    return tuple(3 + (7 * number + 3 * position) % (COMMON_TOKENS - 3) for position in range(length))


@dataclass
class _RequestTally:
    """The results of all requests of a hardware trial. Times are in seconds."""

    answered_count: int = 0
    tokens: int = 0
    longest_seconds: float = 0.0
    first_token_seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def to_traffic(self, seconds: float, report: WarmupReport) -> ReportTrialTraffic:
        """Return the results as Traffic, including the instance's report."""
        return ReportTrialTraffic(
            requests=self.answered_count + len(self.failures),
            failures=tuple(self.failures[:20]),
            seconds=seconds,
            tokens=self.tokens,
            first_token_p50=request_quantile(self.first_token_seconds, 0.5),
            first_token_p99=request_quantile(self.first_token_seconds, 0.99),
            longest=self.longest_seconds,
            report=report,
        )


def request_quantile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that is at least as large as this share of all values; None without values."""
    sorted_values = sorted(values)
    return sorted_values[max(0, math.ceil(share * len(sorted_values)) - 1)] if sorted_values else None


class RequestClient:
    """A client for the requests of a hardware trial, with the container's API key."""

    def __init__(self, config: RuntimeConfig) -> None:
        key = os.environ.get(API_KEY_VARIABLE, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._model = config.model.served_names[0]
        # The simulation has no sampler, and speculative decoding supports only greedy requests.
        samples = config.engine.name is EngineName.VLLM and not config.limits.draft_tokens
        self._samplings = SAMPLINGS if samples else (GREEDY,)
        self._http = httpx.AsyncClient(timeout=REQUEST_SECONDS, trust_env=False, headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send_rounds(self, url: str, prompts: Sequence[Prompt], levels: Iterable[int]) -> _RequestTally:
        """Send all prompts with each number of concurrent requests, and each kind of sampling in turn."""
        tally, samplings = _RequestTally(), cycle(self._samplings)
        for level in levels:
            count = max(len(prompts), len(self._samplings))
            for start in range(0, count, level):
                batch = [(prompts[(start + offset) % len(prompts)], next(samplings)) for offset in range(level)]
                await asyncio.gather(*(self.stream_completion(url, *request, tally) for request in batch))
        return tally

    async def request_completion(self, url: str, prompt: Prompt) -> str:
        """Request a greedy completion and return its text. Raises httpx.HTTPError."""
        answer = await self._http.post(f"{url}/v1/completions", json=self._request_body(prompt, GREEDY, stream=False))
        answer.raise_for_status()
        return str(answer.json()["choices"][0]["text"])

    async def stream_completion(self, url: str, prompt: Prompt, sampling: Sampling, tally: _RequestTally) -> None:
        """Request a streamed completion and add its result to `tally`."""
        start_time, first_token_seconds, tokens, done = time.monotonic(), 0.0, 0, False
        try:
            body = self._request_body(prompt, sampling, stream=True)
            async with self._http.stream("POST", f"{url}/v1/completions", json=body) as answer:
                if answer.status_code != httpx.codes.OK:
                    text = (await answer.aread()).decode(errors="replace")
                    tally.failures.append(f"HTTP {answer.status_code}: {text[:300]}")
                    return
                async for line in answer.aiter_lines():
                    done = done or line == "data: [DONE]"
                    if line.startswith("data: {") and json.loads(line[6:]).get("choices"):
                        first_token_seconds, tokens = first_token_seconds or time.monotonic() - start_time, tokens + 1
        except httpx.HTTPError as error:
            tally.failures.append(repr(error)[:300])
            return
        if not done:
            tally.failures.append("The stream ended early.")
            return
        tally.answered_count += 1
        tally.tokens += tokens
        tally.longest_seconds = max(tally.longest_seconds, time.monotonic() - start_time)
        tally.first_token_seconds.append(first_token_seconds)

    def _request_body(self, prompt: Prompt, sampling: Sampling, *, stream: bool) -> dict[str, object]:
        body = {"model": self._model, "prompt": list(prompt), "max_tokens": ANSWER_TOKENS, "stream": stream}
        # With `ignore_eos`, vLLM generates all requested tokens, even if the model would end earlier. The trial needs
        # requests of fixed shapes.
        return {**body, "ignore_eos": True, **sampling}
