"""Metrics of every resource, read from its status at each scrape, on the leader only.

The number of series is bounded, because label values are only names of resources and fixed words of the operator.
Followers have no series, because they do not watch objects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.status.condition_table import CONDITION_REASONS
from gaudi_operator.core.text_formats import parse_timestamp_text

RESOURCE = ("namespace", "name")
_MOST_WORD = 64
_REPLICAS = {"current": "replicas", "updated": "updatedReplicas", "ready": "readyReplicas"}
_PHASES = ("prompt", "decode")


class ResourceMetrics(Collector):
    """A collector with one set of series per resource."""

    def __init__(self, resources: Callable[[], Iterable[Manifest]]) -> None:
        """Create a collector. `resources` is called at every scrape, possibly in a thread."""
        self._resources = resources

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield all series with their current values."""
        resources = list(self._resources())
        for name, documentation, labels, samples in _FAMILIES:
            family = GaugeMetricFamily(f"gaudi_inference_{name}", documentation, labels=(*RESOURCE, *labels))
            for resource in resources:
                metadata = resource["metadata"]
                # Skip a status that cannot be read. Another release may have written the status in a different format.
                with suppress(AttributeError, TypeError, ValueError):
                    for label_values, value in tuple(samples(resource.get("spec") or {}, resource.get("status") or {})):
                        family.add_metric((metadata["namespace"], metadata["name"], *label_values), value)
            yield family


Sample = tuple[tuple[str, ...], float]
"""A sample: the label values after namespace and name, and the value."""
Samples = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[Sample]]
"""A function that reads samples from raw spec and status. Unreadable values yield no samples."""


def _condition(_: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Sample]:
    for condition in status.get("conditions") or ():
        reason = condition.get("reason")
        labels = condition.get("type"), condition.get("status"), reason if reason in CONDITION_REASONS else "Other"
        yield tuple(map(_label_value, labels)), 1.0


def _captured_percent(_: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Sample]:
    percent = status.get("capturedPercent") or {}
    yield from (((phase,), float(percent[phase])) for phase in _PHASES if phase in percent)


def _warmup(_: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Sample]:
    warmup = status.get("warmup")
    if warmup is not None:
        yield (), float(warmup.get("percent", 0))


def _eta(_: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Sample]:
    moment = parse_timestamp_text((status.get("warmup") or {}).get("eta"))
    if moment is not None:
        yield (), moment.timestamp()


def _replicas(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Sample]:
    yield ("desired",), float(spec.get("replicas", 1))
    yield from (((state,), float(status.get(field, 0))) for state, field in _REPLICAS.items())
    yield ("lost",), float(max(0, status.get("expectedReadyReplicas", 0) - status.get("readyReplicas", 0)))


def _revision(_: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Sample]:
    revision = status.get("revision") or {}
    if "current" in revision:
        yield (
            (_label_value(revision["current"]), _label_value(revision.get("stable", "")), _failed_revision(status)),
            1.0,
        )


def _failed_revision(status: Mapping[str, Any]) -> str:
    failed_revisions = (revision for revision in status.get("revisions") or () if revision.get("reason"))
    return _label_value(next((revision["name"] for revision in failed_revisions), ""))


def _label_value(value: object) -> str:
    return str(value)[:_MOST_WORD]


_FAMILIES: tuple[tuple[str, str, tuple[str, ...], Samples], ...] = (
    ("condition", "1 for the status and the reason of each condition.", ("type", "status", "reason"), _condition),
    (
        "captured_percent",
        "Captured or executed buckets in percent of the plan, the least over pods of the current revision.",
        ("phase",),
        _captured_percent,
    ),
    ("warmup_percent", "Warm-up of the least advanced pod of the current revision.", (), _warmup),
    ("warmup_eta_timestamp_seconds", "Estimated end of that warm-up, in seconds since 1970.", (), _eta),
    ("replicas", "Pods by stage of the warm-up.", ("state",), _replicas),
    (
        "revision_info",
        "Always 1; labels name the desired, the stable and the last failed revision.",
        ("current", "stable", "failed"),
        _revision,
    ),
)
