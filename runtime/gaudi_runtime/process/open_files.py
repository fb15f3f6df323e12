"""How many files and connections this process may have open."""

import resource


def allow_open_files(most: int = 65_536) -> None:
    """Let this process have so many files and connections open, as far as its own right goes."""
    # Many container runtimes start with 1024. Where none is left, no connection is accepted: not the kubelet's either.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
