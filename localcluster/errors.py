"""The one error of this package: a sentence that says what is wrong and what to install or run."""


class LocalClusterError(Exception):
    """The local cluster cannot do what was asked; the message is complete without a traceback."""
