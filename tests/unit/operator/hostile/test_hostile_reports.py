"""The largest reports of all pods fit into 512 MiB of memory and into one status."""

import json

from gaudi_operator.api.base import MOST_COUNT
from gaudi_operator.api.v1alpha1.status import MAX_PODS
from gaudi_operator.core.status.warmup_figures import MAX_COLD_SHAPES
from tests.unit.operator.hostile.fleet import PODS, status_of_a_fleet


def test_largest_reports_of_all_pods_result_in_a_small_status() -> None:
    """Once, such reports took a gigabyte and a minute per reconcile, and their sums exceeded the status schema."""
    status = status_of_a_fleet()
    assert status["readyReplicas"] == PODS
    assert status["recompiles"]["sinceReady"] == PODS * 10**6
    assert status["recompiles"]["coldShapes"][0]["count"] == MOST_COUNT
    assert len(status["recompiles"]["coldShapes"]) == MAX_COLD_SHAPES
    assert len(status["pods"]) == MAX_PODS
    assert len(json.dumps(status)) < 64 * 1024
    [coverage] = [each for each in status["conditions"] if each["type"] == "BucketCoverage"]
    assert "Most frequent are prompt batches of shape (" in coverage["message"]
