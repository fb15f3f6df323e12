"""How many threads of a CPU a model is worth."""

BYTES_PER_THREAD = 32 * 1024**2


def threads(weight_bytes: int, cores: int) -> int:
    """Threads for a model, from 1 to `cores`.

    A decode step streams the weights once. In a small model the threads would mostly wait for each other, and where
    cores are shared a thread that waits for one without a core costs far more than it saves.
    """
    return min(cores, 1 + weight_bytes // BYTES_PER_THREAD)
