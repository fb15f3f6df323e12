"""One replica with several pods: a leader that serves, and ranks that execute the leader's commands.

topology  the rank of this pod
peers     the leader's connections to the ranks, and the engine that includes all of them
follow    a rank, from the first message to the last

The messages are defined in engine_protocol/messages.py. See docs/how-to/several-nodes.md.
"""
