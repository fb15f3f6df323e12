"""Transfer of files over an unreliable network: several at the same time, with retries."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Answer = TypeVar("Answer")
Away = TypeVar("Away", bound=Exception)

STREAMS = 4
"""The number of files that are transferred at the same time."""


def call_with_retries(
    ask: Callable[[], Answer],
    away: type[Away],
    pauses: Sequence[float],
    wait: Callable[[float, Away], object],
    came: Callable[[], int] = lambda: 0,
) -> Answer:
    """Call `ask` to transfer a file, and return its result. After an error `away`, retry after each of `pauses`.

    `wait` receives the seconds of the pause and the error. The pauses start from the first one if `came` has increased.
    """
    left, before = iter(pauses), came()
    while True:
        try:
            return ask()
        except away as error:
            if came() > before:
                left, before = iter(pauses), came()
            pause = next(left, None)
            if pause is None:
                raise
            why = error
        wait(pause, why)


def run_concurrently(tasks: Iterable[Callable[[], None]], failed: threading.Event, name: str) -> None:
    """Run all transfer tasks in STREAMS threads named `name`.

    The first failure sets `failed` and ends the other tasks.
    """
    failed.clear()
    with ThreadPoolExecutor(STREAMS, name) as pool:
        work = [pool.submit(task) for task in tasks]
        try:
            for each in as_completed(work):
                each.result()
        except BaseException:
            failed.set()
            # The call does not wait: running tasks stop when they read `failed`, and the end of the `with` block waits
            # for them.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
