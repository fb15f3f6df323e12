"""`gaudi-operator run`: what the operator's container runs."""

import os
import signal
import sys


def main() -> None:
    """Command line of the operator."""
    if sys.argv[1:2] != ["run"]:
        raise SystemExit(
            "usage: gaudi-operator run [--SETTING=VALUE ...]   (settings come from the environment and from arguments,"
            " `python -m gaudi_operator.settings` lists them)"
        )
    # Process 1 of a container ignores a SIGTERM that it has no handler for, and the imports below take seconds.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from gaudi_operator.replica import live
    from gaudi_operator.settings import variables

    os.environ.update(variables(sys.argv[2:]))

    raise SystemExit(live())


if __name__ == "__main__":
    main()
