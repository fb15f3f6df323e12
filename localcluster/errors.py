"""The only error of this package. Its message is a sentence with the fault and the remedy."""


class LocalClusterError(Exception):
    """A request to the local cluster failed. The message is complete without a traceback."""
