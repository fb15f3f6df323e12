"""The trial of one card, with a fake of the Gaudi software."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.hardware.card_trial import try_card, try_card_in_process
from gaudi_runtime.hardware.instance import TrialEnded
from gaudi_runtime.hardware.report import ReportCardTrial
from tests.unit.runtime.configs import sim_config

GIB = 1 << 30


class FakeCard:
    """A card with `free` bytes. In lazy mode, `mark_step` compiles the operations before it."""

    def __init__(self, free: int, *, lazy: bool = False, has_metric: bool = True) -> None:
        self.free, self.lazy, self.has_metric = free, lazy, has_metric
        self.recipes = self.pending = 0

    def load(self, name: str) -> Any:
        """Return a module of the Gaudi software."""
        hpu = SimpleNamespace(mem_get_info=lambda: (self.free, 96 * GIB), synchronize=lambda: None)
        metric = SimpleNamespace(stats=lambda: [("TotalNumber", self.recipes), ("TotalTime", 0)])
        return {
            "habana_frameworks.torch": SimpleNamespace(),
            "torch": SimpleNamespace(hpu=hpu, zeros=self._zeros, compile=self._compile, uint8="uint8"),
            "torch._dynamo.utils": SimpleNamespace(counters={"stats": {"unique_graphs": 0}}),
            "torch._dynamo.callback": SimpleNamespace(),
            "habana_frameworks.torch.core": SimpleNamespace(mark_step=self._mark_step),
            "habana_frameworks.torch.utils.internal": SimpleNamespace(is_lazy=lambda: self.lazy),
            "habana_frameworks.torch.internal.bridge_config": SimpleNamespace(),
            "habana_frameworks.torch.hpu.metrics": SimpleNamespace(
                metric_global=lambda _: metric if self.has_metric else None
            ),
        }[name]

    def _zeros(self, size: int, device: str, dtype: str = "float32") -> int:
        assert device == "hpu"
        if dtype == "uint8":
            self.free -= size
        else:
            self.pending = 1
        return size

    def _compile(self, function: Callable[[Any], Any], backend: str) -> Callable[[Any], Any]:
        assert backend == "hpu_backend"

        def run(tensor: Any) -> Any:
            self.recipes += 1
            return function(tensor)

        return run

    def _mark_step(self) -> None:
        if self.lazy:
            self.recipes, self.pending = self.recipes + self.pending, 0


@pytest.mark.parametrize("lazy", [True, False])
def test_new_size_is_counted_in_both_modes(lazy: bool) -> None:
    assert try_card(FakeCard(96 * GIB, lazy=lazy).load) == ReportCardTrial(recipes=1, allocated=GIB, lowered=GIB)


def test_bridge_without_a_metric_counts_nothing() -> None:
    assert try_card(FakeCard(96 * GIB, has_metric=False).load).recipes == 0


def test_small_card_is_tried_with_an_eighth_of_its_memory() -> None:
    assert try_card(FakeCard(64 << 20).load).allocated == 8 << 20


def test_machine_without_gaudi_software_ends_the_trial() -> None:
    with pytest.raises(TrialEnded, match="failed: ModuleNotFoundError: No module named 'habana_frameworks'"):
        try_card_in_process(sim_config(), os.environ)
