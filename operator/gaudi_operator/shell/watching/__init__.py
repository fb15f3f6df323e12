"""The observed objects of all kinds, from watches and from responses to the operator's writes.

watches     kopf watches the GaudiInferences, and list_watch watches each kind of child
incoming    reads lists object by object, and reduces foreign objects to their names
trimmed     the fields of an object that are kept
shares      the memory limit per resource
store       all objects by resource, the newest version of each
"""
