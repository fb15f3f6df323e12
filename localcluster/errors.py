"""The only error of this package: a sentence with the fault and the remedy."""


class LocalClusterError(Exception):
    """The local cluster cannot do what was requested; the message is complete without a traceback."""
