"""The lines of a bucket file: numbers, lists, ranges, comments, and refusals with the line number."""

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.bucket_file import read_bucket_file


def buckets(text: str) -> list[Bucket]:
    return [entry.bucket for entry in read_bucket_file(text)]


def test_line_of_three_integers_is_one_bucket() -> None:
    assert buckets("(1, 2048, 0)") == [Bucket(1, 2048, 0)]


def test_lists_and_ranges_are_expanded_to_their_product() -> None:
    assert buckets("([1, 2], 1, range(256, 512, 128))") == [
        Bucket(1, 1, 256),
        Bucket(1, 1, 384),
        Bucket(2, 1, 256),
        Bucket(2, 1, 384),
    ]


def test_range_without_step_has_step_one() -> None:
    assert buckets("(1, 1, range(2, 4))") == [Bucket(1, 1, 2), Bucket(1, 1, 3)]


def test_line_numbers_include_comments_and_blank_lines() -> None:
    assert [entry.line_number for entry in read_bucket_file("# head # more\n\n(1, 128, 0)  # short\n")] == [3]


MOST = "(1, range(1, 51), range(0, 100))"


def test_file_of_5000_buckets_is_read() -> None:
    assert next(read_bucket_file(MOST)).bucket == Bucket(1, 1, 0)


def test_file_of_more_buckets_over_all_lines_is_refused() -> None:
    with pytest.raises(PlanImpossible) as refused:
        buckets(f"(1, 1, 1)\n{MOST}")
    assert str(refused.value) == f"bucket file, line 2: the file has more than 5000 buckets: {MOST!r}"


def test_file_of_more_than_1000_lines_is_refused() -> None:
    assert len(buckets("(1, 1, 1)\n# comment\n" * 1000)) == 1000
    with pytest.raises(PlanImpossible, match="bucket file, line 1001: the file has more than 1000 lines with buckets"):
        buckets("(1, 1, 1)\n" * 1001)


NO_TUPLE = "the line is not a tuple of three elements"
NO_COUNT = "is neither a whole number >= 0"
NO_VALUES = "an element has no values"
NO_BATCH = "batch size and query length must be at least 1"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1, 128", NO_TUPLE),
        ("(1, 128, 0", NO_TUPLE),
        ("(" * 3000, NO_TUPLE),
        ("\x00", NO_TUPLE),
        ("(1, 128, -1)", f"-1 {NO_COUNT}"),
        ("(1, 128, 0.5)", f"0.5 {NO_COUNT}"),
        ("(True, 128, 0)", f"True {NO_COUNT}"),
        ("(1, 128, 'a')", f"'a' {NO_COUNT}"),
        ("(1, 128, [])", NO_VALUES),
        ("(1, 128, range(4, 2))", NO_VALUES),
        ("(0, 128, 0)", NO_BATCH),
        ("(1, 0, 0)", NO_BATCH),
        ("(1, 128, 99999999999)", "99999999999 is above 16777216"),
        ("(1, 1, range(0, 10, 0))", "the step of a range must not be 0"),
        ("(1, 1, range(10))", "range takes start, stop and an optional step"),
        ("(1, 1, range(0, 10**9))", rf"10\*\*9 {NO_COUNT}"),
        ("(1, 1, range(0, 16777216))", "a range has 16777216 elements, but at most 10000 are allowed"),
        ("(1, 1, __import__('os').getpid())", NO_COUNT),
        ("(1, range(1, 9001), range(1, 9001))", "the file has more than 5000 buckets"),
        ("(1, 128, " + "1" * 5000 + ")", "the line is longer than 4096 characters"),
    ],
)
def test_bad_line_is_refused_with_its_number_and_reason(line: str, reason: str) -> None:
    with pytest.raises(PlanImpossible, match=f"bucket file, line 2: (.* )?{reason}"):
        buckets(f"(1, 128, 0)\n{line}")


def test_bad_line_is_quoted() -> None:
    with pytest.raises(PlanImpossible, match=r": '\(1, oops, 0\)'$"):
        buckets("(1, oops, 0)")


@pytest.mark.parametrize("line", ["(1, 128)", "(1, 128", "1"])
def test_line_that_is_no_tuple_of_three_is_refused(line: str) -> None:
    with pytest.raises(PlanImpossible) as refused:
        buckets(line)
    assert str(refused.value) == f"bucket file, line 1: {NO_TUPLE}: {line!r}"


DEEP = {"a sum": "(1, 1" + "+1" * 1800 + ", 0)", "negations": "(" + "not " * 900 + "1, 1, 1)"}


@pytest.mark.parametrize("line", DEEP.values(), ids=DEEP)
def test_too_deeply_nested_line_is_refused(line: str) -> None:
    with pytest.raises(PlanImpossible, match=NO_COUNT):
        buckets(line)


@pytest.mark.parametrize("element", ["9" * 4000, "0x" + "f" * 4000, "x" * 4000, "[" * 90 + "]" * 90])
def test_refusal_of_a_long_element_quotes_its_beginning(element: str) -> None:
    with pytest.raises(PlanImpossible) as refused:
        buckets(f"(1, {element}, 0)")
    assert len(str(refused.value)) < 400
