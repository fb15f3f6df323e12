"""`kubectl gaudi`: commands for GaudiInferences, with the verbs and exit codes of `kubectl rollout`.

selected_resource.py gives each command an open cluster and the name of a resource. The command reads objects, computes
its output or a patch with pure functions, and prints the output or sends the patch.
"""
