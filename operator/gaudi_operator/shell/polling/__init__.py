"""Long-polls, which request the warm-up reports of pods.

status_port  requests and validates the report of one pod
open_polls   limits the number of open polls
reports      polls all pods, and wakes their resources
"""
