"""The observed objects of all kinds, from watches and from responses to the operator's writes.

kopf_watches     watches the GaudiInferences with kopf
list_watch       watches each kind of child
incoming         reads lists object by object, and reduces foreign objects to their names
trimmed_objects  selects the fields of an object that are kept, and compresses pod templates
memory_shares    limits the memory per resource, per namespace and in total
store            keeps the newest version of all objects, by resource
"""
