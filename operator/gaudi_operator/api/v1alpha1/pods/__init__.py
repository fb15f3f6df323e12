"""spec.pod: what may be said about the pods, in Kubernetes' own types, bounded.

pod         spec.pod itself, and the amounts of the runtime's container
scheduling  which nodes: taints, affinity, spread
volumes     further volumes, and where containers see them
containers  containers beside the runtime, and every container's environment
"""
