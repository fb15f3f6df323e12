"""Facts about cards from Intel's tool and the kernel."""

from collections.abc import Sequence
from pathlib import Path

from gaudi_runtime.doctor.gaudi_facts import Card, read_gaudi_facts, run_gaudi_facts_command

LINKS = "port  7:        UP\nport  9:        DOWN\nport 10:        UP\n"
OUTPUTS = {
    ("hl-smi", "-Q", "bus_id", "-f", "csv,noheader"): "0000:9a:00.0\n0000:9b:00.0\n",
    ("hl-smi", "-Q", "driver_version", "-f", "csv,noheader"): "1.24.1-f8bd3a2\n1.24.1-f8bd3a2\n",
    ("hl-smi", "-n", "link", "-i", "0000:9a:00.0"): LINKS,
    ("hl-smi", "-n", "link", "-i", "0000:9b:00.0"): "",
}


def tool(command: Sequence[str]) -> str:
    return OUTPUTS[tuple(command)]


def nothing(_: Sequence[str]) -> str:
    return ""


def test_ports_that_are_down_are_listed_by_number(tmp_path: Path) -> None:
    cards = read_gaudi_facts(tool, tmp_path).cards
    assert cards == (Card("0000:9a:00.0", (7, 9, 10), (9,)), Card("0000:9b:00.0"))


def test_driver_version_is_read_from_the_tool(tmp_path: Path) -> None:
    assert read_gaudi_facts(tool, tmp_path).driver == "1.24.1-f8bd3a2"


def test_driver_version_is_read_from_the_kernel_without_the_tool(tmp_path: Path) -> None:
    module = tmp_path / "sys/module/habanalabs"
    module.mkdir(parents=True)
    (module / "version").write_text("1.24.1-f8bd3a2\n")
    assert read_gaudi_facts(nothing, tmp_path).driver == "1.24.1-f8bd3a2"


def test_machine_without_cards_has_no_facts(tmp_path: Path) -> None:
    facts = read_gaudi_facts(nothing, tmp_path)
    assert (facts.driver, facts.cards) == ("", ())


def test_missing_tool_returns_no_output() -> None:
    assert run_gaudi_facts_command(("no-such-tool-anywhere",)) == ""


def test_failing_tool_returns_no_output() -> None:
    assert run_gaudi_facts_command(("sh", "-c", "echo half; exit 1")) == ""
