"""From a plan to captured graphs, before the first request (docs/warmup.md).

schedule   the plan's buckets in the order in which they are compiled and captured, runs of the sampler, swaps
runner     each step done by the engine, one after the other: compile, sampler, defragmenter, capture
budget     which graphs fit their share of memory, and when the time for new buckets is spent
journal    what was compiled, on disk, so that the next start knows it; estimate: what is left, by measured steps
progress   every step on the report board and in the log; log_lines has the words that users search for
"""
