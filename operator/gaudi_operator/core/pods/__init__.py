"""What the pods of a resource say, and what follows for their gates.

view          what the API server and the reports say of each pod, read once into values
gate          which gates open, because a report meets the thresholds, or close, on positive evidence only
terminations  how pods and their containers ended: kept in the status, and counted against a revision
delays        pods that have no node, or no container yet, and buckets that take much too long
containers    what keeps containers from starting, or ends them again and again
problems      what keeps a revision from serving until somebody acts, and whether the revision is to blame
"""
