"""The sentence about a pod that fetches its model (docs/model-sources.md)."""

from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.warmup.log_lines import size


def fetching(progress: FetchProgress) -> str:
    """How much is here, and of how much; a pod that waits for another one says so."""
    if progress.waiting:
        return f"Waits for another process that fetches the model: {size(progress.done_bytes)} are here."
    if not progress.total_bytes:
        return "Fetches the model."
    percent = progress.done_bytes * 100 // progress.total_bytes
    return f"Fetches the model: {size(progress.done_bytes)} of {size(progress.total_bytes)} ({percent} %)."
