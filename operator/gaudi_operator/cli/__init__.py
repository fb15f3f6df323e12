"""The command line tools: `gaudi-plan` (plan/) changes nothing, and `kubectl gaudi` (kubectl/) sends patches.

Only cluster.py accesses a cluster. asking.py gives all commands of a tool the same options.
"""
