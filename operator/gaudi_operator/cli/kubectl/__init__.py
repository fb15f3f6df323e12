"""`kubectl gaudi`: commands for GaudiInferences, with the verbs and exit codes of `kubectl rollout`.

A command (rollout.py, status.py, learn.py) gets an open cluster and the name of a resource (asking.py). It reads
objects, decides with pure functions what to print or change, and prints or sends that.
"""
