"""The command line tools: `gaudi-plan` (plan/) changes nothing, and `kubectl gaudi` (kubectl/) sends patches.

cluster.py is their only access to a cluster; asking.py gives all commands of a tool the same options.
"""
