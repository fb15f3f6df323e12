"""A node: the control plane with containerd, kubelet, kube-proxy and cluster DNS in a sandbox.

node         starts, finds and stops a node; state: its stored state
machine      the node's sandbox and image store on this machine
worker       starts the components of the node; node_config: their configuration files
load         imports images into the node
policies     NetworkPolicies as rules of a packet filter
"""
