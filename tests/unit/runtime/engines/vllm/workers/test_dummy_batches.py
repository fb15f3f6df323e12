"""Dummy prompts for a bucket that no single prompt fills, compared with a scan of all prompts."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.lookup import BucketLookup
from gaudi_runtime.engines.vllm.workers.dummy_batches import smallest_prompt

BLOCK, LONGEST = 4, 24
BUCKETS = st.sets(
    st.tuples(st.integers(1, 3), st.integers(1, LONGEST), st.integers(0, LONGEST // BLOCK)), min_size=1, max_size=8
)


def padded_to(known: list[tuple[int, ...]], size: int, query: int, computed: int) -> tuple[int, ...] | None:
    position = BucketLookup([(each[0], each[1], each[2]) for each in known]).find_position(
        size, query, -(-computed // BLOCK)
    )
    return None if position is None else known[position]


@given(BUCKETS)
def test_dummy_prompt_exists_if_any_prompt_fits_the_bucket(buckets: set[tuple[int, ...]]) -> None:
    known = sorted(buckets)
    prompts = [(query, computed) for query in range(1, LONGEST + 1) for computed in range(LONGEST + 1 - query)]
    for shape in known:
        met = any(padded_to(known, shape[0], query, computed) == shape for query, computed in prompts)
        assert (smallest_prompt(shape, known, BLOCK, LONGEST) is not None) == met


@given(BUCKETS)
def test_dummy_prompt_is_padded_to_its_bucket(buckets: set[tuple[int, ...]]) -> None:
    known = sorted(buckets)
    for shape in known:
        found = smallest_prompt(shape, known, BLOCK, LONGEST)
        assert found is None or padded_to(known, shape[0], *found) == shape


def test_dummy_prompt_for_the_largest_context_has_one_new_token() -> None:
    known = [(1, 128, 4), (1, 256, 6), (1, 384, 0), (1, 512, 8)]
    assert smallest_prompt((1, 512, 8), known, block=128, longest=1024) == (1, 769)
