"""The catalog of cards, models and releases: published figures with their sources. Pure.

cards          the memory and speed of a card, and the rates that were measured on it
figure         a number with its source and confidence
models/        the shapes of models, and the sizes of their weight files
release_pairs  the releases of vLLM and its plugin that belong together
"""
