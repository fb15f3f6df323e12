"""One replica over several pods: a leader that serves, and ranks that do what it says (docs/several-nodes.md).

place      whether this pod leads, or which rank it is
gathering  the leader's engine: its own, one over all pods, or one that joins the processes of the others itself
members    the leader's connections to the ranks; engine: each verb done by all of them at the same time
follow     a rank, from hello to farewell
messages   what they say to each other
"""
