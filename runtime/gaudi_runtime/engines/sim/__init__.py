"""The sim engine, without a model or a card. Compile times, graph bytes and faults come from a script.

It is used for hundreds of pods on one machine, for fault drills and for tests. Its report shows that it is simulated.

engine     the methods of warm-up; group: the same methods for several pods
app        the OpenAI application; serving: the echo of a prompt in the batches of a plan
script     the faults and values that a user sets
card       the times and bytes of a card; catalog_card: the values of a card in the catalog
"""
