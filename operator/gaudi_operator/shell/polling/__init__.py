"""Long-polls of pods for their warm-up reports.

status_port  requests the report of one pod, and validates it
open_polls   limits the number of open polls
reports      polls all pods, and wakes their resources
"""
