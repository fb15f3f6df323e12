"""The fixture with the chart release that most chart tests use."""

import pytest

from tests.unit.chart.rendering import Object, render


@pytest.fixture(scope="module")
def defaults() -> list[Object]:
    """Return the objects of the release that the documentation installs."""
    return render()
