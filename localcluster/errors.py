"""The only error of this package. Its message states the error and the remedy in one sentence."""


class LocalClusterError(Exception):
    """A failed operation on the local cluster. The message is complete without a traceback."""
