"""The control plane: etcd, API server, controllers and scheduler.

control_plane  starts and stops the components
components     the command lines of the components
certificates   the certificate authority
kubeconfig     kubeconfig files for the users of certificates
api            requests to the API server during a start
"""
