"""The runtime's code in vLLM's worker processes, one process for each rank.

The runtime's own process imports nothing from this package.

hpu_worker, cpu_worker    the worker classes that vLLM creates
driven_worker             their common part: it executes calls and returns plain data
hpu, cpu                  the calls of a worker, one bucket per call
dummy_batches             the batches that run a bucket on a card
capabilities              checks whether this release of the plugin is usable
observed_shapes           counts the shapes during serving
"""
