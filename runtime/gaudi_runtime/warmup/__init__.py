"""From a plan to captured graphs, before the first request (docs/internals/warmup.md).

schedule   the plan's buckets in the order in which they are compiled and captured, and what fits memory and time
cover_first  the order in which a warm-up that ends early leaves no shape without a warm bucket; covering: its start
runner     each step done by the engine, one after the other: compile, sampler, defragmenter, capture
journal    what was compiled, on disk, so that the next start knows it; estimate: what is left, by measured steps
progress   every step on the report board and in the log, in the words that users search for
spans      what of it traces record; tracing/ implements this
"""
