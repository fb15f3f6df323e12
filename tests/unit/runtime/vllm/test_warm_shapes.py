"""Which padded shapes are warm: on a card those with a graph, on a CPU all that a graph holds."""

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.engine import WarmShapes

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
BUCKET = Bucket(2, 128, 0)


@pytest.mark.parametrize("graphs", [True, False])
def test_on_a_card_exactly_buckets_that_were_done_are_warm(graphs: bool) -> None:
    shapes = WarmShapes("hpu", graphs)
    shapes.add(PROMPT, BUCKET)
    assert shapes.is_warm(PROMPT, BUCKET)
    assert not shapes.is_warm(DECODE, BUCKET)
    assert not shapes.is_warm(PROMPT, Bucket(1, 128, 0))


def test_graph_of_a_cpu_serves_steps_up_to_its_tokens() -> None:
    shapes = WarmShapes("cpu", captures_graphs=True)
    shapes.add(PROMPT, BUCKET)
    assert shapes.is_warm(DECODE, Bucket(256, 1, 900))
    assert not shapes.is_warm(DECODE, Bucket(257, 1, 900))


def test_on_a_cpu_before_the_first_graph_nothing_is_warm() -> None:
    assert not WarmShapes("cpu", captures_graphs=True).is_warm(DECODE, Bucket(1, 1, 1))


def test_a_smaller_graph_takes_nothing_away() -> None:
    shapes = WarmShapes("cpu", captures_graphs=True)
    shapes.add(PROMPT, BUCKET)
    shapes.add(DECODE, Bucket(1, 1, 1))
    assert shapes.is_warm(PROMPT, BUCKET)


def test_on_a_cpu_without_graphs_no_shape_is_ever_cold() -> None:
    assert WarmShapes("cpu", captures_graphs=False).is_warm(PROMPT, Bucket(64, 4096, 0))
