"""The knobs of the engine, and their conversion to environment variables and arguments (docs/reference/knobs.md). Pure.

table               table.csv, one row per knob, and the conversion of a user's value to the word that the engine reads
setting_errors      the errors in a user's settings, and settings without effect
fields              the knobs that typed fields own, and the entries of engine.settings that are typed fields
attention_settings  the knobs that select how attention is computed
speculation         the knobs of speculative decoding
render              the conversion of fields and settings to environment and arguments
"""
