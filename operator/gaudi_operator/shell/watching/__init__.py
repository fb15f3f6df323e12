"""What exists: objects of all kinds, as watches show them and as our own writes were answered.

watches     kopf follows the resources, and list_watch each kind that belongs to them; lists come as a whole
incoming    objects one at a time as they come: what is no affair of ours leaves its name alone behind
trimmed     what is kept of an object
store       all of them by the resource that they belong to, the newest version of each
"""
