"""The command line tools: `gaudi-plan` (plan/) changes nothing, and `kubectl gaudi` (kubectl/) sends patches.

Only cluster.py accesses a cluster. options.py gives all commands of a tool the same options.
"""
