"""Compiled recipes that outlive their pods: read from a volume before an engine loads, published after warm-up.

cache         the two steps of start-up, and the pod's own disk
entry         one entry on a volume
manifest      the contents of an entry, as text
revisions     the revisions that need an entry
cleaning      the removal of entries
"""
