"""Simulation of the steps in which a server batches the requests of a trace."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeShapeSpace
from gaudi_runtime.traffic.histogram import Weights
from tests.support.simulated_batching import Request, ServerPace, simulate_decode_steps

LIMITS = Limits(max_model_len=64, max_num_seqs=2, max_num_batched_tokens=64, block_size=4)
AT_ONCE = ServerPace(prompt_tokens_per_second=1e12, decode_step_seconds=1.0)


def steps(*requests: Request, limits: Limits = LIMITS, kv_blocks: int = 100) -> Weights:
    return simulate_decode_steps(requests, limits, kv_blocks, AT_ONCE)


def test_answer_has_one_decode_step_fewer_than_tokens() -> None:
    assert steps(Request(0, 4, 3)) == {Bucket(1, 1, 2): 2}


def test_sequence_gets_a_new_block_if_the_last_is_full() -> None:
    assert steps(Request(0, 2, 5)) == {Bucket(1, 1, 1): 2, Bucket(1, 1, 2): 2}


def test_overlapping_requests_share_steps() -> None:
    assert steps(Request(0, 4, 3), Request(0.5, 4, 2)) == {Bucket(1, 1, 2): 1, Bucket(2, 1, 4): 1}


def test_separate_requests_never_share_a_step() -> None:
    assert steps(Request(0, 4, 3), Request(100, 4, 3)) == {Bucket(1, 1, 2): 4}


def test_request_beyond_max_num_seqs_waits() -> None:
    assert max(shape.batch_size for shape in steps(*(Request(0, 4, 9) for _ in range(6)))) == 2


def test_request_waits_for_the_kv_blocks_of_its_whole_length() -> None:
    assert max(shape.batch_size for shape in steps(Request(0, 4, 9), Request(0, 4, 9), kv_blocks=5)) == 1


def test_request_larger_than_the_device_does_not_block_others() -> None:
    assert steps(Request(0, 60, 4), Request(0, 4, 2), kv_blocks=5) == {Bucket(1, 1, 2): 1}


def test_request_longer_than_the_model_is_skipped() -> None:
    assert steps(Request(0, 64, 4), Request(0, 99, 4)) == {}


def test_answer_ends_at_the_model_length() -> None:
    assert sum(steps(Request(0, 60, 1000)).values()) == 3


REQUESTS = st.lists(st.builds(Request, st.floats(0, 30), st.integers(1, 70), st.integers(0, 70)), max_size=25)


@given(REQUESTS, st.integers(1, 40))
def test_simulated_step_is_always_an_admissible_batch(requests: list[Request], kv_blocks: int) -> None:
    space = DecodeShapeSpace(LIMITS.model_copy(update={"contiguous_paged_attention": False}), kv_blocks)
    for shape in steps(*sorted(requests), kv_blocks=kv_blocks):
        assert space.admits(shape)


@given(REQUESTS)
def test_decode_steps_produce_every_token_after_the_first(requests: list[Request]) -> None:
    servable = [request for request in requests if request.context_tokens < 64]
    tokens = sum(max(0, min(request.generated_tokens, 64 - request.context_tokens) - 1) for request in servable)
    assert sum(shape.batch_size * count for shape, count in steps(*sorted(requests)).items()) == tokens
