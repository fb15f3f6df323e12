"""The command line `gaudi-operator`, which the operator's container runs."""

import os
import signal
import sys

from gaudi_runtime.version import version_line

USAGE = "usage: gaudi-operator run [--SETTING=VALUE ...]"


def main() -> None:
    """Command line of the operator."""
    arguments = sys.argv[1:]
    if "--version" in arguments:
        sys.stdout.write(f"{version_line('gaudi-operator')}\n")
        return
    if "--help" in arguments:
        from gaudi_operator.settings import settings_help

        sys.stdout.write(f"{USAGE}\n\nRun the operator until SIGTERM. Settings:\n{settings_help()}")
        return
    if arguments[:1] != ["run"]:
        raise SystemExit(f"{USAGE}\nTry 'gaudi-operator --help' for help.")
    # Install a handler before the slow imports: process 1 of a container ignores SIGTERM without a handler, and the
    # imports below take seconds. The handler exits immediately, because an import may convert SystemExit to another
    # error (a class body does so while it calls __set_name__).
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    from gaudi_operator.replica import run_replica
    from gaudi_operator.settings import parse_arguments

    os.environ.update(parse_arguments(arguments[1:]))

    raise SystemExit(run_replica())


if __name__ == "__main__":
    main()
