"""spec.pod: the settings of the pods. Types are bounded, and fields have the same names as in Kubernetes.

pod         spec.pod itself
scheduling  nodes: taints, affinity, spread
volumes     further volumes and their mounts
containers  init containers, sidecars, and the environment of every container
"""
