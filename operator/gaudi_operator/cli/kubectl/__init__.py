"""`kubectl gaudi`: what a person does to a GaudiInference, in the words and exit codes of `kubectl rollout`.

A command (rollout.py, status.py, learn.py) is given an open cluster and the name of a resource (asking.py), reads what
is there, decides purely what to say or to change, and says or sends that.
"""
