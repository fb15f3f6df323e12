"""The answers of all ranks are combined: the minimum of available resources, and the maximum of used ones."""

import pytest

from gaudi_runtime.engines.vllm.ranks import (
    combine_degradations,
    combine_outcomes,
    largest_value,
    smallest_value,
    unwrap_answers,
)
from gaudi_runtime.errors import EngineLost, RankFailed

GRAPH = {"bytes": 5, "graph": True, "out_of_memory": None}


def test_bytes_of_a_bucket_are_the_maximum_over_ranks() -> None:
    assert combine_outcomes([GRAPH, {**GRAPH, "bytes": 9}]) == {"bytes": 9, "graph": True, "out_of_memory": None}


def test_bucket_has_a_graph_if_every_rank_has_one() -> None:
    assert not combine_outcomes([GRAPH, {**GRAPH, "graph": False}, GRAPH])["graph"]


def test_first_out_of_memory_of_a_rank_is_returned() -> None:
    short = [{**GRAPH, "graph": False, "out_of_memory": reason} for reason in ("first", "second")]
    assert combine_outcomes([GRAPH, *short])["out_of_memory"] == "first"


def test_degradations_of_all_ranks_are_listed_once_in_order() -> None:
    assert combine_degradations([{"degradations": ["b", "a"]}, {"degradations": ["a", "c"]}]) == ("b", "a", "c")


def test_minimum_and_maximum_are_taken_over_ranks() -> None:
    answers = [{"free": 7}, {"free": 3}, {"free": 5}]
    assert (smallest_value(answers, "free"), largest_value(answers, "free")) == (3, 7)


def test_answers_are_unwrapped_in_the_order_of_ranks() -> None:
    assert unwrap_answers([[{"answer": 1}, {"answer": 2}]], "memory") == [[1, 2]]


def test_first_failed_rank_is_reported_with_its_reason() -> None:
    answers = [{"answer": 1}, {"reason": "UnsupportedModel", "message": "no images."}, {"reason": "x", "message": "y"}]
    with pytest.raises(RankFailed, match=r"^Rank 1 failed during the call describe: no images\.$") as failed:
        unwrap_answers([answers], "describe")
    assert failed.value.reason == "UnsupportedModel"


def test_call_without_ranks_raises_engine_lost() -> None:
    with pytest.raises(EngineLost, match="No rank of vLLM answered the call plan"):
        unwrap_answers([[]], "plan")
