"""The weight of a bucket: the tokens of a prompt bucket, and the sequences of a decode bucket."""

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.contract.report import BucketPhase


def test_weight_of_a_prompt_bucket_is_its_tokens_with_context() -> None:
    assert bucket_weight(BucketPhase.PROMPT, Bucket(2, 256, 3), block_size=128) == 2 * (256 + 3 * 128)


def test_weight_of_a_decode_bucket_is_its_sequences() -> None:
    assert bucket_weight(BucketPhase.DECODE, Bucket(8, 1, 1024), block_size=128) == 8
