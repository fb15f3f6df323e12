"""The bounds of the report: no card exceeds the bounds, and larger values are rejected."""

import pytest
from pydantic import ValidationError

from gaudi_runtime.contract.report import (
    BucketPhase,
    ColdShape,
    MemorySplitReport,
    SkippedVisionBucketReport,
    VisionBucket,
    VisionProgressReport,
    WarmupReport,
)

GIB = 2**30


def test_report_accepts_millions_of_blocks_of_one_token() -> None:
    """Qwen2.5 0.5B takes 12 KiB of KV cache per token: 24 layers, 2 heads of 64, keys and values in 16 bits."""
    blocks = 100 * GIB // (12 * 1024)
    split = MemorySplitReport(free=120 * GIB, usable=110 * GIB, graphs=10 * GIB, kv_cache=100 * GIB, kv_blocks=blocks)
    assert split.kv_blocks == blocks > 8_000_000
    assert ColdShape(phase=BucketPhase.DECODE, shape=(1, 1, blocks), count=1).shape[2] == blocks


OLD = {"instance": "a", "sequence": 1, "planHash": "0" * 64, "phase": "Serving"}


def test_report_of_an_older_release_has_no_vision() -> None:
    assert WarmupReport.model_validate(OLD).vision is None


def test_vision_bucket_is_serialized_as_modality_and_sizes() -> None:
    bucket = VisionBucket("image", 896, 448, 2)
    said = VisionProgressReport(
        planned=2, warmed=1, skipped=(SkippedVisionBucketReport(bucket=bucket, reason="no memory"),)
    )
    report = WarmupReport.model_validate({**OLD, "vision": said.model_dump(by_alias=True)})
    wire = report.model_dump_json(by_alias=True)
    assert '"bucket":["image",896,448,2]' in wire
    assert WarmupReport.model_validate_json(wire) == report
    assert str(bucket) == "image 896x448x2"


def test_no_more_vision_buckets_are_warm_than_planned() -> None:
    with pytest.raises(ValidationError, match="count of warm vision buckets exceeds the 1 planned"):
        VisionProgressReport(planned=1, warmed=2)
