"""A worker ends when the runtime that started it is gone: vLLM's processes would otherwise outlive a SIGKILL."""

import os
import threading
import time

import psutil

LOOK_SECONDS = 1.0


def watch_runtime(pid: int) -> None:
    """Watch process `pid` in a thread of its own and end this process, without ceremony, once it is gone."""
    threading.Thread(target=_watch, args=(pid,), name="orphan-watch", daemon=True).start()


def _watch(pid: int) -> None:
    while _is_there(pid):
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _is_there(pid: int) -> bool:
    """A process that was killed and that nobody has asked about yet is gone, too."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
