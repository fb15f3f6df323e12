"""A checkpoint that is not mounted: a repository of a hub, fetched before the engine loads.

fetch      the step of start-up, and the steps of a fetch: lock, listing, files, snapshot
listing    the files of a repository, and which of these files are needed
download   the download of one file, with verification of its checksum; hub is the only source
snapshots  the folder on disk, in which a rename marks a snapshot as complete
weights    checks whether the files of any checkpoint are complete, including mounted ones
"""
