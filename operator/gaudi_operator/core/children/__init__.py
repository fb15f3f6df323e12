"""The child objects of a resource: their manifests and the missing writes.

manifests      the manifests: workloads of revisions, network access, PodDisruptionBudget and HorizontalPodAutoscaler
child_actions  all children that a resource should have, and the writes and deletions in order
drift          whether a live object differs from the applied manifest
"""
