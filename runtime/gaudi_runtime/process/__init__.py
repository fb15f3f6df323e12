"""Our process among others: its signals, threads and children, its logs, its share of the node, and how it exits."""
