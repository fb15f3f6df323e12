"""Greedy tokens from a server and from the project's own engine."""

import asyncio
from pathlib import Path

from openai import OpenAI

from gaudi_runtime.engine_protocol.engine import SamplingParams
from tests.unit.runtime.engines.torch.engines import EAGER, start, torch_config
from tests.vllm.configs import MODEL


def served_tokens(openai: OpenAI, prompts: list[list[int]], count: int) -> list[list[int]]:
    """Return a server's greedy answers to the prompts."""
    answers = [
        openai.completions.create(
            model=MODEL,
            prompt=prompt,
            max_tokens=count,
            temperature=0,
            extra_body={"return_token_ids": True, "ignore_eos": True},
        )
        for prompt in prompts
    ]
    return [answer.choices[0].token_ids for answer in answers]  # type: ignore[attr-defined]


def torch_tokens(checkpoint: Path, prompts: list[list[int]], count: int) -> list[list[int]]:
    """Return the greedy answers of the project's own engine to the prompts."""
    engine = start(torch_config(checkpoint, engine=EAGER))

    async def generate() -> list[list[int]]:
        engine.start_serving()
        sampling = SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
        answers = [
            [token async for chunk in engine.generate(prompt, sampling) for token in chunk.token_ids]
            for prompt in prompts
        ]
        await engine.close()
        return answers

    return asyncio.run(generate())
