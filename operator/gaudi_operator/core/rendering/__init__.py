"""The pods of a revision and their configuration, rendered once from a spec by pure functions.

metadata        name, labels, owner and content hash of all children
runtime_config  the RuntimeConfig of the pods, their execution mode, and the limits of the bucket plan
container       the runtime container
pod_volumes     the volumes of a pod and their mounts: model files, shared recipes and others
pod_template    the pod template of a revision
"""
