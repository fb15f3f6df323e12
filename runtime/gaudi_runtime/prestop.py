"""The container's preStop hook."""

import os
import signal
import time

PRESTOP_SECONDS = 5.0


def prestop(pid: int) -> None:
    """Tell the server `pid` to close connections after each answer, then wait PRESTOP_SECONDS.

    The kubelet sends SIGTERM only when the hook is over; until then kube-proxies may still route to this pod
    (docs/openai-api.md, When a pod ends). A signal and not a path: nothing that the network could call.
    Raises ProcessLookupError when there is no such process.
    """
    os.kill(pid, signal.SIGUSR1)
    time.sleep(PRESTOP_SECONDS)
