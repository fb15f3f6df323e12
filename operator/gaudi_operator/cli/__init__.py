"""The command line tools: `gaudi-plan` (plan/) only reads, and `kubectl gaudi` (kubectl/) also writes objects.

Only cluster.py accesses a cluster. options.py defines the options that all commands of a tool share.
"""
