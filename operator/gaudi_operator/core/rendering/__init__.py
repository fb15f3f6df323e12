"""The pods of a revision and their configuration, rendered once from a spec by pure functions.

metadata        name, labels, owner and content hash of all children
runtime_config  the RuntimeConfig of the pods, and the limits of its bucket plan
execution_mode  whether pods run on a card, in which mode, and whether they capture graphs
model_files     folders of the checkpoint and adapters, and repositories that the runtime fetches
container       the runtime container
pod_volumes     the volumes of a pod and their mounts
pod_template    the pod template of a revision
recipe_pvc      the PVC on which pods share recipes, and the ConfigMap of revisions whose recipes are kept
"""
