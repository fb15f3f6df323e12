"""The pods of a revision and their configuration, rendered once from a spec. Pure functions.

metadata        name, labels, owner and content hash of all children
runtime_config  the RuntimeConfig of the pods, and the limits of its bucket plan
container       the runtime container, used by pod_template; volumes has its mounts
recipe_pvc      the PVC on which pods share recipes, and the revisions whose recipes it keeps
"""
