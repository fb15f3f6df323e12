"""Random sampling with seeds, with a fake of vLLM's module."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gaudi_runtime.engines.vllm.workers.seeds import SeededRows, replace_random_sampling

MODULE = "vllm.v1.sample.ops.topk_topp_sampler"
PLAIN = torch.tensor([41])


@pytest.fixture
def random_sample(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the replaced function. vLLM's own function returns PLAIN."""
    module = SimpleNamespace(random_sample=lambda *_: PLAIN)
    monkeypatch.setitem(sys.modules, MODULE, module)
    replace_random_sampling(lambda: None)
    return module.random_sample


def seed(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def uniform(rows: int) -> torch.Tensor:
    return torch.full((rows, 1000), 0.001)


def test_copies_of_a_padded_request_use_no_generator() -> None:
    first, second = seed(1), seed(2)
    assert SeededRows({0: first, 1: second, 2: first, 3: first}).generators == {0: first, 1: second}


def test_step_without_seeds_uses_the_function_of_vllm(random_sample: Any) -> None:
    assert random_sample(uniform(1), {}, False) is PLAIN


def test_token_of_a_seeded_row_depends_on_its_seed_only(random_sample: Any) -> None:
    alone = random_sample(uniform(1), SeededRows({0: seed(7)}), False)
    together = random_sample(uniform(4), SeededRows({1: seed(3), 2: seed(7)}), False)
    other = random_sample(uniform(1), SeededRows({0: seed(3)}), False)
    assert (together[2], together[1]) == (alone[0], other[0])
    assert alone[0] != other[0]


def test_next_token_of_a_seeded_row_has_other_noise(random_sample: Any) -> None:
    rows = SeededRows({0: seed(7)})
    assert random_sample(uniform(1), rows, False) != random_sample(uniform(1), rows, False)


def test_each_seeded_row_ends_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(random_sample=None)
    monkeypatch.setitem(sys.modules, MODULE, module)
    marks: list[None] = []
    replace_random_sampling(lambda: marks.append(None))
    module.random_sample(uniform(4), SeededRows({1: seed(3), 2: seed(7)}), False)
    assert len(marks) == 3 + 2 * 2
