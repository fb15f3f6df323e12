"""What a deployment will need before a card is paid for: memory, graphs, time; all estimates.

See docs/internals/memory.md.

inputs    what a deployment says; forecast: with a model and a card -> Forecast (result)
memory    how a card is divided; graphs: how many fit by the card's measured rates, their bytes and seconds
advice    the smallest change that makes a deployment fit
"""
