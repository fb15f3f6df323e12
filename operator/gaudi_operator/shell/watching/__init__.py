"""The observed objects of all kinds, from watches and from responses to the operator's writes.

kopf_watches     kopf watches the GaudiInferences, and list_watch watches each kind of child
incoming         reads lists object by object, and reduces foreign objects to their names
trimmed_objects  the fields of an object that are kept
memory_shares    the memory limit per resource
store            all objects by resource, the newest version of each
"""
