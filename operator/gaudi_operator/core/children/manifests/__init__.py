"""The children of a resource as complete manifests: pure functions of plain values.

metadata      name, labels, owner and the hash of what was applied, which all of them have
pod_template  what a revision renders, of container and volumes
workloads     what carries it: ControllerRevision, and ReplicaSet or LeaderWorkerSet
scaling       PodDisruptionBudget and HorizontalPodAutoscaler; network: Service, ServiceAccount, NetworkPolicy
recipe_pvc    the PVC that pods share recipes over, and which revisions it may keep recipes for
"""
