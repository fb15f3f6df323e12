"""Strategies and cost models evaluated on a trace of requests."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.traffic.histogram import parse_traffic
from tests.unit.operator.cli.plan.asked import INFERENCE, answer, plan, refusal

LIMITS = {"max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048, "num_blocks": 200}
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of 400 requests, ten per second.

    Two thirds of the prompts have about 300 tokens, the others about 1100.
    """
    rows = (f"{at // 10},{300 + at % 7 if at % 3 else 1100 + at % 50},{at % 40 + 1}\n" for at in range(400))
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "".join(rows))
    return path


def judged(trace: Path, *arguments: str) -> Any:
    return answer(LIMITS, "--trace", str(trace), *arguments, command="trace")


def test_every_strategy_is_evaluated_in_both_phases(trace: Path) -> None:
    strategies = judged(trace)["strategies"]
    assert list(strategies) == ["Optimal", "Exponential", "Linear", "PaddingAware"]
    for phases in strategies.values():
        assert set(phases) == {"prompt", "decode"}
        assert all({"graphs", "padding", "coverage"} <= set(phase) for phase in phases.values())


def test_optimal_has_no_more_graphs_than_exponential_and_less_padding(trace: Path) -> None:
    strategies = judged(trace)["strategies"]
    for phase in ("prompt", "decode"):
        optimal, exponential = strategies["Optimal"][phase], strategies["Exponential"][phase]
        assert optimal["graphs"] <= exponential["graphs"]
        assert optimal["padding"] < exponential["padding"]
        assert optimal["coverage"] == 1.0


def test_graphs_option_limits_the_prompt_graphs_of_optimal(trace: Path) -> None:
    assert judged(trace, "--graphs", "3", "--decode-graphs", "5")["strategies"]["Optimal"]["prompt"]["graphs"] == 3


ROOFLINE = ("--cost", "roofline", "--model", "meta-llama/Llama-3.1-8B", "--card", "gaudi2")


def test_roofline_warning_names_model_card_and_rates(trace: Path) -> None:
    said = judged(trace, *ROOFLINE)["warnings"]
    assert (
        "padding is counted in estimated seconds: a roofline of meta-llama/Llama-3.1-8B on card gaudi2, 432 TFLOPS and "
        "2.45 TB/s as published"
    ) in said


def test_decode_padding_costs_little_if_weights_dominate(trace: Path) -> None:
    """A decode step reads 16 GB of weights, so reading 16 MiB for each padded block costs little."""
    tokens, seconds = (judged(trace, *cost)["strategies"] for cost in (("--cost", "tokens"), ROOFLINE))
    assert tokens["Linear"]["decode"]["padding"] > 1.1
    assert seconds["Linear"]["decode"]["padding"] < 1.1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--cost", "roofline"), "--cost roofline needs the model"),
        (("--cost", "roofline", *ROOFLINE[2:4], "--card", "none"), "card none"),
        (("--card", "gaudi2"), "--card and --model need --cost roofline"),
    ],
)
def test_incomplete_cost_options_are_refused(trace: Path, options: tuple[str, ...], sentence: str) -> None:
    assert sentence in refusal(LIMITS, "--trace", str(trace), *options, command="trace")


def test_warnings_name_the_learned_and_the_evaluated_traffic(trace: Path) -> None:
    said = judged(trace)["warnings"]
    assert f"Optimal learned from the earlier half of {trace}; all are evaluated on the later half" in said
    assert any("an estimate" in warning for warning in said)


def test_complete_trace_is_evaluated_if_another_is_learned(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(HEADER + "".join(f"{at},900,5\n" for at in range(50)))
    result = judged(trace, "--learn", str(other))
    assert f"Optimal learned from {other}; all are evaluated on {trace}" in result["warnings"]
    assert (
        result["strategies"]["Optimal"]["prompt"]["padding"]
        > judged(trace)["strategies"]["Optimal"]["prompt"]["padding"]
    )


def test_saved_traffic_has_the_same_plan_in_a_policy(trace: Path, tmp_path: Path) -> None:
    saved = tmp_path / "traffic.txt"
    graphs = judged(trace, "--save-traffic", str(saved))["strategies"]["Optimal"]["prompt"]["graphs"]
    assert parse_traffic(saved.read_text()).shapes_of(BucketPhase.PROMPT)
    engine = {"maxNumSeqs": 8, "maxNumBatchedTokens": 2048}
    model = INFERENCE["spec"]["model"] | {"maxModelLen": 2048}  # type: ignore[index]
    bucketing = {"strategy": "Optimal", "optimal": {"traffic": saved.read_text()}}
    document = INFERENCE | {"spec": INFERENCE["spec"] | {"model": model, "engine": engine, "bucketing": bucketing}}  # type: ignore[operator]
    assert len(answer(document, "--kv-blocks", "200")["prompt"]) == graphs


def test_prefix_caching_does_not_change_the_result(trace: Path) -> None:
    without = answer(LIMITS | {"prefix_caching": False}, "--trace", str(trace), command="trace")
    assert judged(trace)["strategies"] == without["strategies"]


def test_csv_has_a_row_for_each_strategy_and_phase(trace: Path) -> None:
    header, *rows = csv.reader(io.StringIO(plan(LIMITS, "--trace", str(trace), "-o", "csv", command="trace").stdout))
    assert header[:5] == ["strategy", "phase", "graphs", "padding", "coverage"]
    assert len(rows) == 8


def test_table_names_all_strategies(trace: Path) -> None:
    shown = plan(LIMITS, "--trace", str(trace), command="trace").stdout
    assert all(name in shown for name in ("Optimal", "Linear", "padding is padded / real cost"))


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("when,in,out\n" + "".join(f"{at},200,4\n" for at in range(20)))
    columns = ("--arrival-column", "when", "--context-column", "in", "--generated-column", "out")
    assert judged(path, *columns)["strategies"]["Optimal"]["prompt"]["coverage"] == 1.0


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (
            b"a,b\n1,2\n",
            (),
            "has no column for the arrival time. Choose one of its columns with --arrival-column: a, b",
        ),
        (b"", (), "is empty"),
        (HEADER.encode() + b"1,0,3\n2,4,4\n", (), "line 2 has 0 context tokens"),
        (HEADER.encode() + b"1,2,3\n", (), "has only 1 request"),
        (HEADER.encode() + b"1,\xff,3\n", (), "line 2 is not UTF-8 text"),
        (HEADER.encode() + b"1,9,3\n2,9,3\n", ("--warmup-seconds", "1"), "--warmup-seconds: 1 is too small"),
        (HEADER.encode() + b"1,9,3\n2,9,3\n", ("--graphs", "1", "--graph-bytes", "9"), "give one budget"),
        (HEADER.encode() + b"1,9999,3\n2,9,3\n", (), "no prompt shape"),
    ],
)
def test_invalid_trace_exits_with_2_and_one_sentence(
    tmp_path: Path, content: bytes, arguments: tuple[str, ...], sentence: str
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    result = plan(LIMITS, "--trace", str(path), *arguments, command="trace")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_missing_trace_exits_with_2_and_one_sentence(tmp_path: Path) -> None:
    result = plan(LIMITS, "--trace", str(tmp_path / "none.csv"), command="trace")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "cannot be read: No such file" in result.stderr


def test_folder_instead_of_a_trace_is_refused(tmp_path: Path) -> None:
    assert "is not a regular file" in plan(LIMITS, "--trace", str(tmp_path), command="trace").stderr


def test_comparison_on_a_trace_equals_the_trace_command(trace: Path) -> None:
    compared = answer(LIMITS, "--trace", str(trace), command="compare")
    everything = judged(trace, "--learn", str(trace))["strategies"]
    for name in ("Exponential", "Linear", "PaddingAware"):
        for phase in ("prompt", "decode"):
            assert compared["strategies"][name][f"{phase}_padding"] == everything[name][phase]["padding"]
    assert any(f"padding is computed for all of {trace}" in said for said in compared["warnings"])


def test_optimal_in_a_comparison_does_not_learn_from_the_trace(trace: Path) -> None:
    compared = answer(LIMITS, "--trace", str(trace), command="compare")
    without = answer(LIMITS, command="compare")
    for phase in ("prompt", "decode"):
        for which in (lambda each: each["strategies"]["Optimal"], lambda each: each["optimal_with"]["half"]):
            assert which(compared)[f"{phase}_graphs"] == which(without)[f"{phase}_graphs"]
            assert which(compared)[f"{phase}_padding"] != which(without)[f"{phase}_padding"]


def test_comparison_with_a_missing_trace_is_refused(tmp_path: Path) -> None:
    said = refusal(LIMITS, "--trace", str(tmp_path / "none.csv"), command="compare")
    assert "none.csv cannot be read" in said
