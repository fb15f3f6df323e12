"""The sim engine: no model and no card; compile times, graph bytes and faults come from a script.

It is for hundreds of pods on one machine, for fault drills and for tests; its report says that it is simulated.
"""
