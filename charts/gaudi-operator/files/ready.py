"""The test of `helm test`, which runs in the operator's image: wait up to a minute until the operator is ready."""

import sys
import time
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 60


def answer(url: str) -> str:
    """Return the body of an answer with status 200; otherwise the reason after a question mark."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - the chart sets the URL
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return f"? {error.code} {error.read().decode().strip()}"
    except OSError as error:
        return f"? {error}"


def main(base: str) -> None:
    """Wait until the operator is ready. Raises SystemExit with its answer if it does not become ready."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while (body := answer(f"{base}/readyz")).startswith("?"):
        if time.monotonic() > end:
            raise SystemExit(f"{base}/readyz: {body[2:]}")
        time.sleep(1)
    if "gaudi_operator_leader " not in answer(f"{base}/metrics"):
        raise SystemExit(f"{base}/metrics has no gaudi_operator_leader: another program answers there.")
    sys.stdout.write("The operator is ready.\n")


main(sys.argv[1])
