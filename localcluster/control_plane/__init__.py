"""The control plane: etcd, API server, controllers and scheduler.

control_plane  starts and stops the components; components: their command lines
certificates   the certificate authority; kubeconfig: files for its users
api            requests to the API server during a start
"""
