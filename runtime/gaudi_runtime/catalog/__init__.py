"""What is published of cards, models and releases: figures that name their sources. Pure.

cards    what a card has, and what was measured on it
figure   a number with its source and confidence
models/  the shapes of models, and what their tensors take
pairs    the releases of vLLM and its plugin that belong together
"""
