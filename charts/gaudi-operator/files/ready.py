"""What `helm test` runs in the operator's image: asks the Service whether the operator is ready, a minute at most."""

import sys
import time
import urllib.error
import urllib.request

PATIENCE_SECONDS = 60


def answer(url: str) -> str:
    """What stands there; for anything but an answer with 200 the reason, behind a question mark."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - of the chart
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return f"? {error.code} {error.read().decode().strip()}"
    except OSError as error:
        return f"? {error}"


def main(base: str) -> None:
    """Ask until it is ready. Raises SystemExit with what it says instead."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (said := answer(f"{base}/readyz")).startswith("?"):
        if time.monotonic() > end:
            raise SystemExit(f"{base}/readyz: {said[2:]}")
        time.sleep(1)
    if "gaudi_operator_leader " not in answer(f"{base}/metrics"):
        raise SystemExit(f"{base}/metrics has no gaudi_operator_leader: another program answers there.")
    sys.stdout.write("The operator is ready.\n")


main(sys.argv[1])
