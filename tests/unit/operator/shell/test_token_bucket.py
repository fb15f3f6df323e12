"""A token bucket limits requests by a maximum burst and a maximum rate per second."""

from collections.abc import Iterator

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.shell.token_bucket import TokenBucket
from tests.world.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def bucket(loop: Loop) -> TokenBucket:
    return TokenBucket(3, 2.0, Clock(monotonic=loop.time))


def test_burst_is_available_immediately_and_limited(loop: Loop) -> None:
    full = bucket(loop)
    assert [full.take() for _ in range(5)] == [True, True, True, False, False]


def test_empty_bucket_has_the_time_until_the_next_token(loop: Loop) -> None:
    empty = bucket(loop)
    while empty.take():
        pass
    assert empty.seconds_until_token() == 0.5


def test_tokens_are_refilled_up_to_the_burst(loop: Loop) -> None:
    taken = bucket(loop)
    while taken.take():
        pass
    loop.run_until(60)
    assert [taken.take() for _ in range(4)] == [True, True, True, False]


def test_waiting_clients_get_tokens_at_the_rate(loop: Loop) -> None:
    times = list[float]()
    limited = bucket(loop)

    async def ask() -> None:
        for _ in range(7):
            await limited.wait()
            times.append(loop.time())

    loop.run_until_complete(ask())
    assert times == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5, 2.0]
