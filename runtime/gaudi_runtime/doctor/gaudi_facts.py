"""Facts about Gaudi cards from hl-smi and the kernel: the driver, and the ports between the cards."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOOL = "hl-smi"
TOOL_SECONDS = 30
MODULE = Path("sys/module/habanalabs/version")

RunCommand = Callable[[Sequence[str]], str]
"""Runs a command and returns its output; empty if it cannot be run or fails."""


@dataclass(frozen=True)
class Card:
    """A Gaudi card with its PCI address, its ports to other cards, and the ports that are down."""

    address: str
    ports: tuple[int, ...] = ()
    ports_down: tuple[int, ...] = ()


@dataclass(frozen=True)
class GaudiFacts:
    """The driver and the ports of this machine's cards; empty if neither the kernel nor hl-smi reports them."""

    driver: str = ""
    cards: tuple[Card, ...] = ()


def read_gaudi_facts(run_tool: "RunCommand | None" = None, root: Path = Path("/")) -> GaudiFacts:
    """Read the driver and the ports of the Gaudi cards.

    In a container, only hl-smi reports the ports, because the network devices are not visible there.
    """
    run_tool = run_tool or run_gaudi_facts_command
    addresses = run_tool((TOOL, "-Q", "bus_id", "-f", "csv,noheader")).split()
    driver_versions = run_tool((TOOL, "-Q", "driver_version", "-f", "csv,noheader")).split()
    return GaudiFacts(
        driver=_read_text(root / MODULE) or next(iter(driver_versions), ""),
        cards=tuple(_parse_card(address, run_tool((TOOL, "-n", "link", "-i", address))) for address in addresses),
    )


def _parse_card(address: str, output: str) -> Card:
    """Return the card whose ports are described by lines such as `port 7: UP`."""
    states = {}
    for line in output.splitlines():
        name, colon, state = line.partition(":")
        if colon and name.split()[:1] == ["port"] and name.split()[-1].isdigit():
            states[int(name.split()[-1])] = state.strip()
    return Card(address, tuple(sorted(states)), tuple(sorted(port for port, state in states.items() if state != "UP")))


def run_gaudi_facts_command(command: Sequence[str]) -> str:
    """Run a command and return its output; empty if the command is missing, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout if process.returncode == 0 else ""


def _read_text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
