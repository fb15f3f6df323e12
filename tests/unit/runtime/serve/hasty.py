"""A variant of `gaudi-runtime serve --config FILE` that exits at once after a failure that may pass."""

import asyncio
import sys
from pathlib import Path

from gaudi_runtime.process.logs import set_up_logs
from gaudi_runtime.serve import serve

if __name__ == "__main__":
    set_up_logs()
    asyncio.run(serve(Path(sys.argv[-1]), restart_seconds=0))
