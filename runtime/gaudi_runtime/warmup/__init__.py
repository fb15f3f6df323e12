"""Warm-up: compiles and captures the graphs of a bucket plan before the first request (docs/internals/warmup.md).

schedule     the order of compilations and captures, within the limits of memory and time
cover_first  the order in which a warm-up that ends early leaves no shape without a warm bucket
covering     the fewest buckets that hold every shape, which are first in the order of cover_first
runner       runs the steps on the engine, one after the other: compile, sampler, defragmenter, capture
job          the common state of the stages
estimate     the time of the remaining steps, estimated from measured steps
journal      the compiled buckets, stored on disk for the next start
progress     publishes every step on the report board and in the log
"""
