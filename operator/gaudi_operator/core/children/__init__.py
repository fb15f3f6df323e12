"""The objects that belong to a resource: from a revision to the writes that are missing.

runtime_config  what the pods of a spec read, and the limits of its bucket plan
manifests       complete manifests from plain values, by what belongs together
desired         what is to be written or deleted, in that order: all children that a resource should have now
drift           whether a live object no longer has what we applied
garbage         children that nothing needs any more
"""
