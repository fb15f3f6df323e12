"""The most frequent batch without a warm graph, and the remedy (docs/reference/conditions.md, Recompiles)."""

from collections import Counter
from collections.abc import Iterable

from gaudi_runtime.contract.report import WarmupReport

NO_GRAPH = (
    "Some planned buckets have no graph. If these batches have a bucket, raise spec.warmup.graphMemoryPercent, or plan "
    "fewer buckets."
)


def describe_cold_shapes(reports: Iterable[WarmupReport], resource: str) -> str | None:
    """Return sentences about the batches that most often had no warm graph, or None without such batches.

    `resource` is the name of the GaudiInference.
    """
    reports = list(reports)
    batches = Counter[tuple[str, tuple[int, ...]]]()
    for cold in (cold for report in reports for cold in report.cold_shapes):
        batches[f"{cold.phase} batches of shape {tuple(cold.shape)}", tuple(cold.needed or cold.shape)] += cold.count
    if not batches:
        return None
    (description, needed), count = batches.most_common(1)[0]
    # Report a percentage. A count would change the status with every batch.
    share = count * 100 // batches.total()
    advice = NO_GRAPH if any(report.skipped_total for report in reports) else ""
    return (
        f"Most frequent are {description} ({share} %), which need at least the bucket {needed}. `kubectl gaudi plan "
        f"learn {resource}` plans for all observed batches. {advice}"
    ).rstrip()
