"""The event loop of the process."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on uvloop, which vLLM brings and serves on as well, otherwise on asyncio's own loop."""
    try:
        from uvloop import run as run_fast
    except ImportError:
        asyncio.run(main)
    else:
        run_fast(main)
