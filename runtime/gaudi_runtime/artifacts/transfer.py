"""Transfer of files over an unreliable network: several at the same time, with retries."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Answer = TypeVar("Answer")
Away = TypeVar("Away", bound=Exception)

STREAMS = 4
"""The number of files that are transferred at the same time."""


def persistently(
    ask: Callable[[], Answer],
    away: type[Away],
    pauses: Sequence[float],
    wait: Callable[[float, Away], object],
    came: Callable[[], int] = lambda: 0,
) -> Answer:
    """Transfer a file by `ask` and return its result. If it raises `away`, retry after each of `pauses`.

    `wait` receives the seconds of the pause and the error. The pauses begin again whenever `came` has grown.
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


def all_at_once(tasks: Iterable[Callable[[], None]], failed: threading.Event, name: str) -> None:
    """Run all transfer tasks in STREAMS threads called `name`; the first failure sets `failed` and ends the others."""
    failed.clear()
    with ThreadPoolExecutor(STREAMS, name) as pool:
        work = [pool.submit(task) for task in tasks]
        try:
            for each in as_completed(work):
                each.result()
        except BaseException:
            failed.set()
            # Not waited for here, because the tasks check `failed` themselves, and the end of the block waits for them.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
