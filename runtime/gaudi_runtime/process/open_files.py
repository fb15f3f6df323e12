"""The limit of open files and connections of this process."""

import resource


def raise_open_file_limit(most: int = 65_536) -> None:
    """Raise the limit of open files and connections of this process, at most to its hard limit."""
    # Many container runtimes set a limit of 1024. When the limit is reached, the process accepts no connection,
    # including the kubelet's probes.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
