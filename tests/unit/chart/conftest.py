"""The release that most tests of the chart look at."""

import pytest

from tests.unit.chart.rendering import Object, render


@pytest.fixture(scope="module")
def defaults() -> list[Object]:
    """The release that the documentation installs."""
    return render()
