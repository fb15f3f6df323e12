"""A variant of `gaudi-runtime serve --config FILE` that compares plans repeatedly, after a few batches.

The comparisons run at the usual priority. With the lowest priority, they would take minutes while other tests run.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

from gaudi_runtime.learning.advisor import Schedule
from gaudi_runtime.learning.comparison_process import compare_in_process
from gaudi_runtime.process.logs import set_up_logging
from gaudi_runtime.serve import serve

LEAST_BATCHES = 10

if __name__ == "__main__":
    set_up_logging()
    asyncio.run(serve(Path(sys.argv[-1]), Schedule(0.05, 0.05, LEAST_BATCHES, partial(compare_in_process, niceness=0))))
