"""docs/pictures/status.svg has the texts that `kubectl gaudi status` prints for the same state.

The state is the one of scripts/pictures.py, in memory: the canary of an upgrade warms up, and two old pods serve.
Figures, names of revisions and line breaks may differ, because the picture is taken on a real cluster.
"""

import html
import re
from datetime import datetime, timedelta
from io import StringIO

from rich.console import Console

from gaudi_operator.cli.kubectl.explanation import explain
from gaudi_operator.cli.kubectl.status import status_output, view_status
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from gaudi_runtime.engines.sim.engine import SimEngine
from scripts.pictures import COLUMNS, DESCRIBED, FOLDER
from tests.support.builders import Object
from tests.unit.operator.core.stories import canary_of, revisions, served
from tests.unit.runtime.configs import sim_config

SCRIPT = {"card": "gaudi2", "model": DESCRIBED["engine"]["settings"]["model"], "timeScale": 2}
TEXT = re.compile(r'<text class="status-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')
CELL = 12.2
"""The width of a character in the picture."""
FIGURES = (
    (r"\x1b\[[\d;]*m", ""),
    (r"\s+", " "),
    (r"\b(?:tiny|code)-[0-9a-f]{10}-\w+", "POD"),
    (r"\b[0-9a-f]{10}\b", "REVISION"),
    (r"[█░]+", "BAR"),
    (r"\d+(:\d+)?", "0"),
    (r"\btiny\b", "code"),
)
"""Patterns of what may differ, and their replacements, in this order."""


def text_of_picture() -> str:
    """Return the lines of the terminal in the picture."""
    lines: dict[float, str] = {}
    for x, y, text in TEXT.findall((FOLDER / "status.svg").read_text()):
        lines[float(y)] = lines.get(float(y), "").ljust(round(float(x) / CELL)) + html.unescape(text)
    return "\n".join(line.replace("\xa0", " ").rstrip() for _, line in sorted(lines.items()))


def upgraded_resource() -> tuple[Object, datetime]:
    """Return the resource while its canary captures graphs, and the time."""
    cluster = served(engine={"name": "sim"})
    (old,) = revisions(cluster)
    cluster.change(engine={"settings": {"timeScale": "2"}})
    canary = canary_of(cluster, old)
    cluster.report(
        canary,
        Phase.CAPTURING,
        prompt=PhaseProgressReport(planned=24, warmed=24, captured=6),
        decode=PhaseProgressReport(planned=48, warmed=48),
        eta_seconds=54,
        warnings=SimEngine(sim_config(SCRIPT)).notes(),
    )
    cluster.now += timedelta(seconds=30)
    cluster.operate()
    return cluster.resource, cluster.now


def printed_status(resource: Object, now: datetime) -> str:
    """Return what the command prints in a terminal."""
    out = StringIO()
    view = view_status(resource, now, explain(resource))
    Console(file=out, width=COLUMNS, force_terminal=True, color_system="truecolor", highlight=False).print(
        status_output(view)
    )
    return out.getvalue()


def words(text: str) -> str:
    """Return a text without colours, line breaks, figures and names."""
    for pattern, replacement in FIGURES:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def test_picture_of_the_status_has_the_printed_words() -> None:
    command, _, shown = text_of_picture().partition("\n")
    assert command == "$ kubectl gaudi status code"
    assert words(shown) == words(printed_status(*upgraded_resource())), "run `make pictures`"
