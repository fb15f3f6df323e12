"""The objects that belong to a resource: from a revision to the writes that are missing.

workloads  the ControllerRevision and the ReplicaSet or LeaderWorkerSet of each revision
scaling    PodDisruptionBudget and HorizontalPodAutoscaler; network: Service, ServiceAccount, NetworkPolicy
desired    what is to be written or deleted, in that order: all children that a resource should have now
drift      whether a live object no longer has what we applied
garbage    children that nothing needs any more
"""
