"""For a step with a grammar, the sampler runs with a batch size from warm-up and returns the step's rows."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gaudi_runtime.engines.vllm.workers.guided import GuidedSampling


@dataclass
class Output:
    """The fields of vLLM's SamplerOutput."""

    sampled_token_ids: torch.Tensor
    logprobs_tensors: None = None


class Runner:
    """A fake of the plugin's model runner with buckets for two and four sequences, and a greedy sampler."""

    def __init__(self, guided: bool) -> None:
        self.use_structured_output = guided
        self.bucketing_manager = SimpleNamespace(decode_buckets=[(4, 1, 16), (2, 1, 8), (4, 1, 8)])
        self.sampled: list[tuple[int, int | None]] = []
        self.warmed: list[str | int] = []

    def warmup_sampler(self) -> None:
        self.warmed.append("sampler")
        self._run_sampling(True, torch.zeros(1, 8))

    def apply_grammar_bitmask(self, scheduler_output: Any, grammar_output: Any, logits: torch.Tensor) -> None:
        assert grammar_output.grammar_bitmask.shape == (0, 1)  # a bit for each of 8 tokens
        self.warmed.append(logits.shape[0])

    def _run_sampling(
        self,
        batch_changed: bool,
        logits_device: torch.Tensor,
        request_ids: Any = None,
        pad_to: int | None = None,
        logits_requests: Any = None,
    ) -> tuple[Output, str]:
        self.sampled.append((logits_device.shape[0], pad_to))
        return Output(logits_device.argmax(dim=-1, keepdim=True)), "metadata"


def sample(runner: Runner, rows: int) -> list[int]:
    GuidedSampling(runner, lambda: None)
    logits = torch.eye(8)[torch.arange(rows) % 8]
    output, metadata = runner._run_sampling(True, logits, [str(row) for row in range(rows)], rows)
    assert metadata == "metadata"
    return [int(token) for token in output.sampled_token_ids.flatten()]


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 5)])
def test_guided_step_is_sampled_at_a_warmed_size(rows: int, size: int) -> None:
    """A step with more rows than every warmed size is not padded."""
    runner = Runner(guided=True)
    assert sample(runner, rows) == list(range(rows))
    assert runner.sampled == [(size, size)]


def test_step_without_a_grammar_is_sampled_at_its_own_size() -> None:
    runner = Runner(guided=False)
    assert sample(runner, 3) == [0, 1, 2]
    assert runner.sampled == [(3, 3)]


def test_warm_up_applies_a_grammar_to_each_number_of_rows() -> None:
    runner = Runner(guided=False)
    GuidedSampling(runner, lambda: None)
    runner.warmup_sampler()
    assert runner.warmed == ["sampler", 1, 2, 3, 4]
