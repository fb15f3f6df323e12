"""The knobs of the engine: all settings, and how they become environment and arguments (docs/reference/knobs.md). Pure.

table               table.csv, a row for each knob: who reads it, where users set it, and when it has an effect
check               the errors in the settings of a user
values              the word that the engine reads for the value that a user writes
fields              the knobs that typed fields own
attention_settings  the knobs that decide how attention is computed; speculation: those of speculative decoding
render              fields and settings -> environment and arguments
page                docs/reference/knobs.md
"""
