"""docs/reference/metrics.md lists exactly the metrics of a runtime."""

import re
import threading
from pathlib import Path

from gaudi_runtime.contract.report import SharedRecipesOutcome, SharedRecipesReport
from gaudi_runtime.http.metrics import MetricSources, RequestMetrics, new_metrics_registry
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.configs import sim_config

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "metrics.md").read_text().partition("## Of a runtime")[2]


async def test_page_lists_exactly_the_metrics() -> None:
    board = ReportBoard("0" * 64)
    observed = MetricSources(board.report, start_engine(sim_config(), board, threading.Event()).engine)
    board.update(shared_recipes=SharedRecipesReport(outcome=SharedRecipesOutcome.HIT))
    registry = new_metrics_registry(observed)
    RequestMetrics(registry)
    suffix = {"counter": "_total"}
    exposed = {family.name + suffix.get(family.type, "") for family in registry.collect()}
    documented = set(re.findall(r"^\| `(gaudi_\w+)`", PAGE, re.MULTILINE))
    assert documented == {name for name in exposed if name.startswith("gaudi_")}
