"""A fixture that creates an `OperatorReplica` for each test."""

from collections.abc import Iterator

import pytest

from tests.unit.operator.shell.reconciled import Operator


@pytest.fixture
def operator() -> Iterator[Operator]:
    made = Operator()
    yield made

    async def stop() -> None:
        made.controller.stop()

    made.loop.run_until_complete(stop())
    made.pass_time(0)
    made.loop.close()
