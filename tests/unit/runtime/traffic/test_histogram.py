"""The text form of a traffic histogram, its limited size, and refusals of bad lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.traffic.histogram import (
    MOST_TEXT,
    MOST_WEIGHT,
    Traffic,
    format_traffic,
    histogram_weight,
    parse_traffic,
)

WEIGHT = st.integers(1, 10**6)
PROMPTS = st.dictionaries(st.builds(Bucket, st.integers(1, 99), st.integers(1, 9999), st.integers(0, 99)), WEIGHT)
STEPS = st.dictionaries(st.builds(Bucket, st.integers(1, 99), st.just(1), st.integers(1, 9999)), WEIGHT)


def test_line_has_phase_batch_query_blocks_and_weight() -> None:
    traffic = parse_traffic("# Monday\n\nprompt 1 412 0 17  # greeting\ndecode 3 1 40 2.5\nprompt 1 412 0 3\n")
    assert traffic == Traffic({Bucket(1, 412, 0): 20.0}, {Bucket(3, 1, 40): 2.5})


@given(PROMPTS, STEPS)
def test_text_of_traffic_round_trips(prompts: dict[Bucket, float], steps: dict[Bucket, float]) -> None:
    assert parse_traffic(format_traffic(Traffic(prompts, steps))) == Traffic(prompts, steps)


def many_shapes() -> Traffic:
    return Traffic({Bucket(1, query, query % 50): 1.0 for query in range(1, 9000)}, {})


def test_text_of_many_shapes_fits_the_field() -> None:
    assert len(format_traffic(many_shapes())) < 65_536


def test_text_of_many_shapes_keeps_the_weight() -> None:
    assert histogram_weight(parse_traffic(format_traffic(many_shapes())).shapes_of(BucketPhase.PROMPT)) == 8999


def test_text_of_more_than_2400_lines_is_refused() -> None:
    assert parse_traffic("decode 1 1 1 1\n# comment\n" * 2400).decode == {Bucket(1, 1, 1): 2400}
    with pytest.raises(PlanImpossible, match="the histogram has more than 2400 lines"):
        parse_traffic("decode 1 1 1 1\n" * 2401)


def test_rounding_never_reduces_sizes() -> None:
    merged = parse_traffic(format_traffic(many_shapes())).prompt
    assert max(shape.query_len for shape in merged) >= 8999
    assert sum(shape.query_len * weight for shape, weight in merged.items()) >= sum(range(1, 9000))


NO_SHAPE = "batch size and query must be above 0, and a decode shape needs"
NO_NUMBER = "is not a number"
NOT_ABOVE = "must be above 0"
NO_COUNT = "is not a whole number from 0 to"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("prompt 1 412 0", "the line has 4 fields instead of 5"),
        ("prefill 1 412 0 1", "the phase prefill is neither prompt nor decode"),
        ("prompt 0 412 0 1", NO_SHAPE),
        ("decode 1 2 5 1", NO_SHAPE),
        ("decode 1 1 0 1", NO_SHAPE),
        ("prompt 1 -4 0 1", f"-4 {NO_COUNT}"),
        ("prompt 1 1e3 0 1", f"1e3 {NO_COUNT}"),
        ("prompt 1 999999999 0 1", f"999999999 {NO_COUNT}"),
        ("prompt 1 4 0 many", f"weight many {NO_NUMBER}"),
        ("prompt 1 4 0 nan", f"weight nan {NOT_ABOVE}"),
        ("prompt 1 4 0 0", f"weight 0 {NOT_ABOVE}"),
        ("prompt 1 4 0 __import__('os')", f"weight __import__('os') {NO_NUMBER}"),
    ],
)
def test_bad_line_is_refused_with_its_number_and_text(line: str, problem: str) -> None:
    with pytest.raises(PlanImpossible) as refusal:
        parse_traffic(f"prompt 1 1 0 1\n{line}\n")
    assert str(refusal.value).startswith(f"bucketing.optimal.traffic: line 2: {problem}")
    assert line in str(refusal.value).replace("\\'", "'")


def test_text_of_wide_shapes_fits_the_field() -> None:
    """Once, 1200 shapes per phase took 80 KB, which exceeds the size limit of a resource."""
    wide = {Bucket(16_000_000 - each, 16_000_000 - each, 10_000_000 + each): 1 / 3 for each in range(1200)}
    traffic = Traffic(wide, {Bucket(shape.batch_size, 1, shape.num_blocks): 1 / 3 for shape in wide})
    assert len(format_traffic(traffic)) <= MOST_TEXT


def test_weight_is_limited_to_the_maximum_when_written() -> None:
    text = format_traffic(Traffic({Bucket(1, 1, 0): 3 * MOST_WEIGHT}, {}))
    assert parse_traffic(text).prompt == {Bucket(1, 1, 0): MOST_WEIGHT}


def test_error_message_for_a_long_word_is_cut() -> None:
    with pytest.raises(PlanImpossible) as said:
        parse_traffic(f"prompt 1 1 0 {'9' * 10**6}")
    assert len(str(said.value)) < 500
