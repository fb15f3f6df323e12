"""Transfer of files over an unreliable network: several at the same time, with retries."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Answer = TypeVar("Answer")
Away = TypeVar("Away", bound=Exception)

STREAMS = 4
"""The number of files that are transferred at the same time."""


def transfer_with_retries(
    run: Callable[[], Answer],
    error_type: type[Away],
    pauses: Sequence[float],
    wait: Callable[[float, Away], object],
    count_received: Callable[[], int] = lambda: 0,
) -> Answer:
    """Call `run` to transfer a file, and return its result. After an error `error_type`, retry after each of `pauses`.

    `wait` receives the seconds of the pause and the error. `count_received` returns the number of received bytes. If it
    has increased, the pauses start from the first one.
    """
    remaining_pauses, last_received = iter(pauses), count_received()
    while True:
        try:
            return run()
        except error_type as error:
            if count_received() > last_received:
                remaining_pauses, last_received = iter(pauses), count_received()
            pause = next(remaining_pauses, None)
            if pause is None:
                raise
            last_error = error
        wait(pause, last_error)


def transfer_concurrently(tasks: Iterable[Callable[[], None]], failed: threading.Event, name: str) -> None:
    """Run all transfer tasks in STREAMS threads named `name`.

    The first failure sets `failed` and ends the other tasks.
    """
    failed.clear()
    with ThreadPoolExecutor(STREAMS, name) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            failed.set()
            # The call does not wait: running tasks stop when they read `failed`, and the end of the `with` block waits
            # for them.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
