"""`kubectl gaudi`: commands for GaudiInferences, with the verbs and exit codes of `kubectl rollout`.

A command (status.py, rollout.py, rollout_status.py, undo.py) gets an open cluster and the name of a resource
(options.py). The command reads objects, computes output or patches with pure functions, and prints or sends the result.
"""
