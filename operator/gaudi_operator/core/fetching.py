"""What pods fetch from a hub, by which token, and the sentence about one that does (docs/model-sources.md)."""

from gaudi_operator.api.base import SecretKey
from gaudi_operator.api.v1alpha1.model import HuggingFaceSource, Model
from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.units import size


def repositories(model: Model) -> tuple[HuggingFaceSource, ...]:
    """The repositories that the runtime fetches: those of the checkpoint and of adapters."""
    sources = (model.source, *(each.source for each in model.adapters))
    return tuple(source.hugging_face for source in sources if source.hugging_face)


def tokens(model: Model) -> tuple[SecretKey, ...]:
    """The different access tokens that they name; a pod has room for one, and uses it for all of them."""
    return tuple(dict.fromkeys(each.token_secret_ref for each in repositories(model) if each.token_secret_ref))


def fetching(progress: FetchProgress) -> str:
    """How much is here, and of how much; a pod that waits for another one says so."""
    if progress.waiting:
        return f"Waits for another process that fetches the model: {size(progress.done_bytes)} are here."
    if not progress.total_bytes:
        return "Fetches the model."
    percent = progress.done_bytes * 100 // progress.total_bytes
    return f"Fetches the model: {size(progress.done_bytes)} of {size(progress.total_bytes)} ({percent} %)."
