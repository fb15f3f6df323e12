"""Files that pods fetch and share on a volume.

sources/       models
recipe_cache/  compiled recipes
lock           which process may write
transfer       several files at the same time over a network that fails
"""
