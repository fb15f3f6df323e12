"""The pods of a resource as values, read from the API server and from reports.

pod_view      one PodView per pod
terminations  how pods and containers ended, for the status and the back-off of a revision
start_delays  why a pod is not created, has no node, or has no container on its node
pod_progress  warm-up in percent, and what pods without traffic are waiting for
slow_bucket   a bucket that takes much longer than its forecast
"""
