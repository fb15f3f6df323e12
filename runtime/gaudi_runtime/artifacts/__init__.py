"""Files that pods fetch and share on a volume: models (sources) and compiled recipes (recipe_cache).

lock      whose turn it is
transfer  several files at the same time over a network that fails
"""
