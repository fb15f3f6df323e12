"""From a plan to captured graphs, before the first request (docs/internals/warmup.md).

schedule     the order of compiles and captures, and what fits memory and time
cover_first  the order in which a warm-up that ends early leaves no shape without a warm bucket
covering     the fewest buckets that hold every shape, which come first in that order
runner       the steps, done by the engine one after the other: compile, sampler, defragmenter, capture
estimate     how long the rest takes, by measured steps
journal      what was compiled, on disk, for the next start
progress     every step on the report board and in the log, with the messages that users search for
spans        what traces record of a warm-up; tracing/ implements it
"""
