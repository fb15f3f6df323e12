"""The objects that belong to a resource: from a revision to the writes that are missing.

runtime_config  what the pods of a spec read, and the limits of its bucket plan
manifests       one module per kind: a complete manifest from plain values
desired         all children that a resource should have now, in the order of their writes
diff            desired against observed: the writes that are missing, none at rest
garbage         children that nothing needs any more
"""
