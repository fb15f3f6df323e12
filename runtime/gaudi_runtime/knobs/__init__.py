"""Every knob of the engine, and what an engine is started with (docs/reference/knobs.md). Pure.

table    table.csv, a row per knob: who reads it, where people say it, under which strategy, mode and device it counts
check    what is wrong with what people set, by values (from what people write to the word that the engine reads)
fields   what the typed fields say; render: fields and settings -> environment and arguments
page     docs/reference/knobs.md
"""
