"""The padded shapes that are warm on a CPU: all shapes that fit a graph."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.warm_shapes import WarmShapes

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
BUCKET = Bucket(2, 128, 0)


def test_graph_serves_steps_up_to_its_tokens() -> None:
    shapes = WarmShapes(captures_graphs=True)
    shapes.add(BUCKET)
    assert shapes.is_warm(DECODE, Bucket(256, 1, 900))
    assert not shapes.is_warm(DECODE, Bucket(257, 1, 900))


def test_no_shape_is_warm_before_the_first_graph() -> None:
    assert not WarmShapes(captures_graphs=True).is_warm(DECODE, Bucket(1, 1, 1))


def test_later_smaller_graph_keeps_earlier_shapes_warm() -> None:
    shapes = WarmShapes(captures_graphs=True)
    shapes.add(BUCKET)
    shapes.add(Bucket(1, 1, 1))
    assert shapes.is_warm(PROMPT, BUCKET)


def test_every_shape_is_warm_without_graphs() -> None:
    assert WarmShapes(captures_graphs=False).is_warm(PROMPT, Bucket(64, 4096, 0))
