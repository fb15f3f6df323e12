"""spec.pod: the settings of the pods, in bounded types with the names of Kubernetes.

pod         spec.pod itself
scheduling  nodes: taints, affinity, spread
volumes     further volumes and their mounts
containers  init containers, sidecars, and the environment of every container
"""
