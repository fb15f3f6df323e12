"""The version of the installed package, which all commands print with `--version`."""

from importlib.metadata import version

PACKAGE = "gaudi-inference-operator"


def version_line(program: str) -> str:
    """Return the name of the program and the version of the package."""
    return f"{program} {version(PACKAGE)}"
