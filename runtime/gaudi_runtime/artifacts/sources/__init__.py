"""Where a checkpoint comes from when nothing mounts it: a repository of a hub, fetched before the engine loads.

fetch     the step of start-up, and the story of a repository: turn, listing, files, snapshot
listing   what a repository holds, and which of its files are wanted
download  one file from a source, as stated; hub is the one source
store     the folder on disk, complete when a rename says so
weights   whether the files of any checkpoint are whole, mounted ones too
"""
