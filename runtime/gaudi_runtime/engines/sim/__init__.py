"""The sim engine: no model and no card; compile times, graph bytes and faults come from a script.

It is for hundreds of pods on one machine, for fault drills and for tests; its report says that it is simulated.
script.py says what happens and when, card.py (described.py, for a card of the catalog) what it costs; engine.py does
the verbs of warm-up by it, and serving.py echoes prompts.
"""
