"""The isolation of a cluster on this machine: its processes, network and cgroup.

sandbox    namespaces and their processes
init       process 1 of a sandbox
processes  processes, identified by pid and start time
addresses  the addresses of a cluster
slots      locks, so that at most one cluster uses a set of addresses
network    the link between a sandbox and the machine
cgroups    the cgroup of all pods
"""
