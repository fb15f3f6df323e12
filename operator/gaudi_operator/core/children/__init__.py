"""The child objects of a resource: their manifests and the missing writes.

workloads        the ControllerRevision and the ReplicaSet or LeaderWorkerSet of each revision
scaling_objects  PodDisruptionBudget and HorizontalPodAutoscaler
network_objects  Service, ServiceAccount and NetworkPolicy
desired          all children that a resource should have, and the writes and deletions in order
drift            whether a live object differs from the applied manifest
garbage          children that are no longer needed
"""
