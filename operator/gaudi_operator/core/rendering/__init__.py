"""What the pods of a revision are made of, rendered once from a spec: pure functions of plain values.

metadata        name, labels, owner and the hash of what was applied, which all children have
runtime_config  what the pods of a spec read, and the limits of its bucket plan
container       the runtime container; volumes: what is mounted into it; pod_template: the pod around them
recipe_pvc      the PVC that pods share recipes over, and the revisions whose recipes it keeps
"""
