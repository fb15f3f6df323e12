"""One replica over several pods: a leader that serves, and ranks that execute its commands.

topology  whether this pod leads, or which rank it is
peers     the leader's connections to the ranks, and the engine that spans them
follow    a rank, from hello to farewell

Their messages are in engine_protocol/messages.py. See docs/how-to/several-nodes.md.
"""
