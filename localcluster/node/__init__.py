"""A node: the control plane with containerd, kubelet, kube-proxy and cluster DNS in a sandbox.

node         starts, finds and stops a node
state        the stored state of a node
machine      the node's sandbox and image store on this machine
worker       starts the components of the node
node_config  the configuration files of the components
load         imports images into the node
policies     NetworkPolicies as rules of a packet filter
"""
