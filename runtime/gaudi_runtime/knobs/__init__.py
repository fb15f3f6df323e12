"""The knobs of the engine, and their conversion to environment variables and arguments (docs/reference/knobs.md). Pure.

table               table.csv, one row per knob: its reader, where users set it, and when it has an effect
check               the errors in a user's settings
values              the conversion of a user's value to the word that the engine reads
fields              the knobs that typed fields own
setting_fields      the entries of engine.settings that a RuntimeConfig has as typed fields
attention_settings  the knobs that select how attention is computed
speculation         the knobs of speculative decoding
render              the conversion of fields and settings to environment and arguments
"""
