"""The operating system's view of this process: signals, threads, children, logs, resource limits and the exit."""
