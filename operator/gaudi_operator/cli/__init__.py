"""Commands for people: `gaudi-plan` (plan/) changes nothing, and `kubectl gaudi` (kubectl/) sends patches.

cluster.py is all that either asks of a cluster; asking.py gives the commands of a tool the same options.
"""
