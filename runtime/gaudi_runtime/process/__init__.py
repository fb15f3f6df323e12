"""This process as seen by the operating system: signals, threads, children, logs, resource limits, and its exit."""
