"""What the pods of a resource report, and what follows for their gates.

view          what the API server and the reports show of each pod, read once into values
gate          which gates open, because a report meets the thresholds, or close, on positive evidence only
terminations  how pods and their containers ended: kept in the status, and counted against a revision
criteria      the facts that pods of one revision are judged by, such as the limits of the canary
scheduling    why a pod has no node, or no container there yet; slow_bucket: a bucket that takes much too long
containers    why a container does not start, or ends again and again
problems      what keeps a revision from serving, in order, and whether the revision is the cause
"""
