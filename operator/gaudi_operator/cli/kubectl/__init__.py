"""`kubectl gaudi`: commands for GaudiInferences, with the verbs and exit codes of `kubectl rollout`.

A command (rollout.py, status.py, learn.py) gets an open cluster and the name of a resource (asking.py). The command
reads objects, computes output or patches with pure functions, and prints or sends the result.
"""
