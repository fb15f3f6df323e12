"""What Intel's tool and the kernel say of cards: driver, firmware, and the ports that connect them to each other."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOOL = "hl-smi"
TOOL_SECONDS = 30
MODULE = Path("sys/module/habanalabs/version")
CARDS = "sys/class/accel/accel*/device"

Ask = Callable[[Sequence[str]], str]
"""What a command prints; empty where it cannot be run or fails."""


@dataclass(frozen=True)
class Card:
    """One card by its address on the bus: its ports to other cards by number, and those of them that are down."""

    address: str
    ports: tuple[int, ...] = ()
    down: tuple[int, ...] = ()


@dataclass(frozen=True)
class GaudiFacts:
    """Of this machine; empty where neither the kernel nor the tool says it."""

    driver: str = ""
    firmware: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()


def look_at_gaudi(ask: "Ask | None" = None, root: Path = Path("/")) -> GaudiFacts:
    """Driver, firmware and ports. The tool sees ports from inside a container, too, where no network device shows."""
    ask = ask or printed
    addresses = ask((TOOL, "-Q", "bus_id", "-f", "csv,noheader")).split()
    asked = ask((TOOL, "-Q", "driver_version", "-f", "csv,noheader")).split()
    return GaudiFacts(
        driver=_text(root / MODULE) or next(iter(asked), ""),
        firmware=tuple(sorted({_text(each / "fw_os_ver") for each in root.glob(CARDS)} - {""})),
        cards=tuple(_card(address, ask((TOOL, "-n", "link", "-i", address))) for address in addresses),
    )


def _card(address: str, output: str) -> Card:
    """Of lines such as `port 7: UP`."""
    states = {}
    for line in output.splitlines():
        name, colon, state = line.partition(":")
        if colon and name.split()[:1] == ["port"] and name.split()[-1].isdigit():
            states[int(name.split()[-1])] = state.strip()
    return Card(address, tuple(sorted(states)), tuple(sorted(each for each, state in states.items() if state != "UP")))


def printed(command: Sequence[str]) -> str:
    """The standard output of a command that ends well within half a minute, else nothing."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
