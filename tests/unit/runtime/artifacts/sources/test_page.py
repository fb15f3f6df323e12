"""docs/how-to/model-sources.md agrees with the code."""

from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.fetch import PAUSES
from gaudi_runtime.artifacts.sources.listing import OTHER_WEIGHTS
from gaudi_runtime.errors import (
    ConfigError,
    DiskFull,
    HubUnreachable,
    ModelAccessDenied,
    ModelNotFound,
    ModelUnreadable,
    RuntimeStartError,
    UnsupportedModel,
)

PAGE = (Path(__file__).parents[5] / "docs" / "how-to" / "model-sources.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(
    "kind",
    [ConfigError, DiskFull, HubUnreachable, ModelAccessDenied, ModelNotFound, ModelUnreadable, UnsupportedModel],
)
def test_page_has_a_row_for_every_reason(kind: type[RuntimeStartError]) -> None:
    assert any(row.startswith(f"| `{kind.reason}` |") for row in ROWS)


def test_retry_delays_on_the_page_equal_the_code() -> None:
    assert "after 1, 2, 4 ... 60 s" in PAGE
    assert (PAUSES[:3], PAUSES[-1]) == ((1, 2, 4), 60)
    assert 600 <= sum(PAUSES) < 660


@pytest.mark.parametrize("suffix", [".bin", ".gguf", ".onnx"])
def test_formats_listed_on_the_page_are_not_fetched(suffix: str) -> None:
    assert f"`{suffix}`" in PAGE
    assert suffix in OTHER_WEIGHTS
