"""What the API server and the reports show of the pods of a resource.

view          each pod, read once into values
terminations  how pods and their containers ended: kept in the status, and counted against a revision
scheduling    why a pod has no node, or no container there yet
progress     what pods that take no traffic are doing
slow_bucket   a bucket that takes much longer than its forecast
"""
