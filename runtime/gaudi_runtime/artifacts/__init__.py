"""Files that pods fetch and share on a volume: models and compiled recipes.

sources/       models
recipe_cache/  compiled recipes
lock           which process may write
transfer       several files at the same time over a network that fails
"""
