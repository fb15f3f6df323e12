"""The sim engine: no model and no card. Compile times, graph bytes and faults come from a script.

It is for hundreds of pods on one machine, for fault drills and for tests; its report shows that it is simulated.

engine     the methods of warm-up; group: the same over several pods
serving    answers: it echoes prompts
script     the faults and values that a user sets
card       times and bytes; catalog_card: those of a card in the catalog
"""
