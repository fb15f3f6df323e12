"""The limit of open files and connections of this process."""

import resource


def raise_open_file_limit(max_files: int = 65_536) -> None:
    """Raise the limit of open files and connections of this process, at most to its hard limit."""
    # Many container runtimes set a limit of 1024. When the limit is reached, the process accepts no connection,
    # including the kubelet's probes.
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = max_files if hard_limit == resource.RLIM_INFINITY else min(max_files, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < new_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))
