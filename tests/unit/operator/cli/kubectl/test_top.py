"""`kubectl gaudi top`: rates computed from two reports of the same instances, and the columns."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from gaudi_operator.cli.kubectl.page import page_addresses
from gaudi_operator.cli.kubectl.top import COLUMNS, read_reports, resource_row, row_cells, top_output
from gaudi_runtime.contract.report import Phase, ServedPhase, ServedTraffic, WarmupReport
from gaudi_runtime.errors import ConfigError
from tests.unit.operator.cli.kubectl.kept import ADVICE, ADVISED, shown

SERVES = ("Ready", True, "Serving", "All serve.")
POD: dict[str, Any] = {"name": "a", "revision": "r", "phase": "Serving", "gate": True, "ready": True}


def report(instance: str = "one", prompt: int = 0, decode: int = 0, padded: int = 0) -> WarmupReport:
    served = ServedTraffic(
        prompt=ServedPhase(real_tokens=prompt, padded_tokens=padded), decode=ServedPhase(real_tokens=decode)
    )
    return WarmupReport(instance=instance, sequence=1, plan_hash="a" * 64, phase=Phase.SERVING, served=served)


def test_rates_are_tokens_per_second_summed_over_pods() -> None:
    before = [report("one", 100, 10), report("two", 0, 0)]
    after = [report("one", 300, 50), report("two", 100, 20)]
    found = resource_row(shown(SERVES), before, after, 10)
    assert (found.prompt_tokens_per_second, found.output_tokens_per_second) == (30.0, 6.0)


def test_restarted_pod_has_no_rate_across_the_restart() -> None:
    found = resource_row(shown(SERVES), [report("one", 900)], [report("two", 100)], 10)
    assert found.prompt_tokens_per_second is None


def test_padding_is_what_was_computed_beyond_what_was_asked() -> None:
    found = resource_row(shown(SERVES), [], [report(prompt=75, padded=100)], 10)
    assert found.padding_percent == 25


def test_unknown_values_are_shown_as_dashes() -> None:
    row = dict(zip(COLUMNS, row_cells(resource_row(shown(SERVES), [], [], 10)), strict=True))
    assert {row[name] for name in ("WARMING UP", "PADDING", "IN TOK/S", "OUT TOK/S", "GRAPHS", "KV CACHE")} == {"-"}


def test_warming_pods_and_captured_percentages_have_separate_columns() -> None:
    warming = {**POD, "name": "b", "phase": "Warmup", "ready": False, "warmupPercent": 57}
    pods = [{**POD, "warmupPercent": 100}, warming, {**warming, "name": "c", "warmupPercent": 80}]
    found = shown(
        SERVES,
        revision={"current": "r"},
        pods=pods,
        warmup={"percent": 57, "phase": "Warmup"},
        capturedPercent={"prompt": 100, "decode": 100},
    )
    row = dict(zip(COLUMNS, row_cells(resource_row(found, [], [], 10)), strict=True))
    assert (row["WARMING UP"], row["PROMPT"], row["DECODE"]) == ("2 pods, 57 %", "100 %", "100 %")


def test_row_has_the_values_of_the_status() -> None:
    memory = {"usableBytes": 3 * 2**30, "graphBytes": 2**30, "kvCacheBytes": 2**31, "kvBlocks": 7}
    captured = {"prompt": 100, "decode": 62}
    found = shown(SERVES, phase="Serving", memory=memory, capturedPercent=captured, recompiles={"sinceReady": 3})
    row = dict(zip(COLUMNS, row_cells(resource_row(found, [], [], 10)), strict=True))
    assert (row["PHASE"], row["PROMPT"], row["DECODE"], row["RECOMPILES"]) == ("Serving", "100 %", "62 %", "3")
    assert (row["GRAPHS"], row["KV CACHE"]) == ("1 GiB", "2 GiB")


@pytest.mark.parametrize(("width", "last"), [(200, "KV CACHE"), (90, "OUT TOK/S"), (20, "READY")])
def test_narrow_terminal_shows_fewer_columns(width: int, last: str) -> None:
    out = StringIO()
    for each in top_output([resource_row(shown(SERVES), [], [], 10)], all_namespaces=False, width=width):
        Console(file=out, width=width).print(each)
    head, row, *rest = out.getvalue().splitlines()
    assert head.rstrip().endswith(last)
    assert row.startswith("tiny")
    assert bool(rest) == (last != COLUMNS[-1])


def test_advice_is_below_the_table() -> None:
    out = StringIO()
    lines = [resource_row(shown(SERVES), [], [], 10), resource_row(shown(SERVES, plan=ADVISED), [], [], 10)]
    for each in top_output(lines, all_namespaces=False, width=200):
        Console(file=out, width=200).print(each)
    assert out.getvalue().splitlines()[3:] == [f"tiny: {ADVICE}"]


def test_advice_names_the_namespace_if_all_namespaces_are_shown() -> None:
    out = StringIO()
    for each in top_output([resource_row(shown(SERVES, plan=ADVISED), [], [], 10)], all_namespaces=True, width=200):
        Console(file=out, width=200).print(each)
    assert out.getvalue().splitlines()[-1] == f"models/tiny: {ADVICE}"


def test_reports_are_read_only_from_ready_pods() -> None:
    asked: list[str] = []

    def ask(namespace: str, name: str, pod: str) -> str:
        asked.append(f"{namespace}/{name}/{pod}")
        return report().model_dump_json(by_alias=True)

    waits = {**POD, "name": "b", "ready": False}
    found = read_reports([shown(SERVES, pods=[POD, waits])], ask)
    assert asked == ["models/tiny/a"]
    assert [each.instance for each in found["models", "tiny"]] == ["one"]


def test_pod_without_a_valid_report_is_omitted() -> None:
    def ask(namespace: str, name: str, pod: str) -> str:
        if pod == "a":
            raise ConfigError("the pod has ended")
        return "{}"

    assert read_reports([shown(SERVES, pods=[POD, {**POD, "name": "b"}])], ask) == {}


def test_forwarded_address_is_printed_once() -> None:
    lines = [
        "Forwarding from 127.0.0.1:4711 -> 8001\n",
        "Forwarding from [::1]:4711 -> 8001\n",
        "Handling connection\n",
    ]
    assert list(page_addresses(lines)) == ["http://127.0.0.1:4711/"]
