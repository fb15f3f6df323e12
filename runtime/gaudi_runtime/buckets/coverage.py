"""Which batches that the limits admit have no bucket: exact, and without a scan (docs/bucketing.md, Coverage).

Every inner corner of what the buckets hold is a gap: an admissible batch at least as large as the corner has no
bucket. Gaps overlap; the totals count every shape once.
"""

from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.decode_gaps import decode_coverage
from gaudi_runtime.buckets.gaps import PhaseCoverage
from gaudi_runtime.buckets.prompt_gaps import prompt_coverage
from gaudi_runtime.contract.bucketing import Limits


@dataclass(frozen=True)
class Uncovered:
    """What a plan leaves without a bucket, by phase. Shapes are counted alike, however often requests have them."""

    prompt: PhaseCoverage
    decode: PhaseCoverage

    @property
    def complete(self) -> bool:
        """Whether every admissible batch has a bucket."""
        return not (self.prompt.gaps or self.decode.gaps)

    def sentences(self) -> tuple[str, ...]:
        """One clause for each phase that has gaps, without a full stop."""
        return tuple(said for phase in (self.prompt, self.decode) if (said := phase.sentence()))

    def sentence(self) -> str | None:
        """All gaps in one sentence without a full stop; None when every admissible batch has a bucket."""
        return "; ".join(self.sentences()) or None


def uncovered(plan: BucketPlan, limits: Limits, kv_blocks: int) -> Uncovered:
    """The admissible batches that no bucket of `plan` holds, on a device with `kv_blocks` KV blocks.

    Admissible (docs/bucketing.md, Coverage): a prompt batch has at most maxNumPrefillSeqs sequences and
    maxNumBatchedTokens tokens with padding, and query and cached context together are at most maxModelLen; a decode
    batch has at most maxNumSeqs sequences, and as many blocks as they can reference on this device.
    """
    return Uncovered(prompt_coverage(plan.prompt, limits), decode_coverage(plan.decode, limits, kv_blocks))
