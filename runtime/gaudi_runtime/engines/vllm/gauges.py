"""vLLM's own metrics, which live in our process: handed on to our /metrics, and read for the engine's load."""

from collections.abc import Iterator

from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gaudi_runtime.engines.protocol import EngineLoad

PREFIX = "vllm:"
RUNNING, WAITING, USED = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"


class VllmCollector(Collector):
    """All families of vLLM, as they stand in the registry that it writes to."""

    def describe(self) -> list[Metric]:
        """Nothing: registering must not scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The families of this moment."""
        return (family for family in REGISTRY.collect() if family.name.startswith(PREFIX))


def engine_load(total_blocks: int) -> EngineLoad:
    """Running and waiting requests and KV blocks in use, of `total_blocks`, after vLLM's last step."""
    wanted = dict.fromkeys((RUNNING, WAITING, USED), 0.0)
    for family in REGISTRY.restricted_registry(list(wanted)).collect():
        for sample in family.samples:
            wanted[sample.name] = wanted.get(sample.name, 0.0) + sample.value
    used = round(min(1.0, wanted[USED]) * total_blocks)
    return EngineLoad(int(wanted[RUNNING]), int(wanted[WAITING]), used, total_blocks)
