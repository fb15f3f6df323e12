"""The isolation of a cluster on this machine: its processes, network and cgroup.

sandbox    namespaces and their processes; init: process 1 of a sandbox; processes: pids that are not reused
addresses  the addresses of a cluster; slots: at most one cluster uses them
network    the link between a sandbox and the machine
cgroups    the cgroup of all pods
"""
