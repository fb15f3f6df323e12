"""Leave without an orderly exit, and leave no process behind (docs/vllm.md, Processes)."""

import contextlib
import logging
import os
from pathlib import Path
from typing import NoReturn

from gaudi_runtime.child_processes import end_children
from gaudi_runtime.errors import RuntimeStartError

log = logging.getLogger(__name__)

TERMINATION_LOG = Path("/dev/termination-log")
"""What the kubelet shows of a container that ended, also in `kubectl describe pod`."""


def leave_at_once() -> NoReturn:
    """An orderly exit would wait for a running compile, or tear the interpreter down under it."""
    log.warning("Stopped in the middle of a step that cannot be interrupted.")
    _leave(0)


def leave_broken(error: RuntimeStartError) -> NoReturn:
    """End with the reason in the termination message, so that the kubelet starts anew."""
    log.error("This process cannot go on (%s): %s", error.reason, error)
    with contextlib.suppress(OSError):
        TERMINATION_LOG.write_text(f"{error.reason}: {error}\n")
    _leave(1)


def _leave(code: int) -> NoReturn:
    end_children()
    logging.shutdown()
    os._exit(code)
