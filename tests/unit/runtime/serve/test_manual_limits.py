"""The manual's limits for slow and for many clients are the limits of the model port and the status port."""

from pathlib import Path

import pytest

from gaudi_runtime.http.connection import ConnectionLimits
from gaudi_runtime.http.status_api import STATUS_LIMITS
from gaudi_runtime.serve import model_port_limits
from tests.unit.runtime.configs import sim_config

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "openai-api.md").read_text()
MODEL: ConnectionLimits = model_port_limits(sim_config())
KIB = 1024


@pytest.mark.parametrize(
    "row",
    [
        f"| a head | {MODEL.head_seconds:.0f} s, {MODEL.header_bytes // KIB} KiB "
        f"(status port: {STATUS_LIMITS.header_bytes // KIB} KiB) |",
        f"| a body | {MODEL.body_seconds:.0f} s, and one second more for each {MODEL.body_rate // KIB} KiB received;",
        f"| a body whose request was answered already | {MODEL.discard_seconds:.0f} s |",
        f"| a client that does not read its answer | {MODEL.reader_seconds:.0f} s |",
        f"| an idle connection | {MODEL.keep_alive_seconds} s (status port: {STATUS_LIMITS.keep_alive_seconds} s) |",
        f"(status port: {STATUS_LIMITS.max_connections}).",
    ],
)
def test_limit_in_the_manual_equals_the_configured_one(row: str) -> None:
    assert row in PAGE
