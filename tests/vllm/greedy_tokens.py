"""Greedy tokens from a server and from transformers."""

from pathlib import Path

import torch
from openai import OpenAI

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


def transformers_tokens(checkpoint: Path, prompts: list[list[int]], count: int) -> list[list[int]]:
    """Return the greedy answers of transformers to the prompts."""
    from transformers import AutoModelForCausalLM  # after the collection of the tests, because the import takes seconds

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    answers = []
    for prompt in prompts:
        tokens = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False)
        answers.append(tokens[0, len(prompt) :].tolist())
    return answers
