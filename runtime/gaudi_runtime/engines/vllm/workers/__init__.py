"""Our code inside vLLM's worker processes, one for each rank. Our own process imports nothing from here.

hpu_worker, cpu_worker    the worker classes that vLLM creates
driven_worker             their common part: it receives a call and answers plain data
hpu, cpu                  the calls of a worker, one bucket per call
dummy_batches             the batches that run a bucket on a card
capabilities              checks first whether this release of the plugin is usable
observed_shapes           counts the shapes of serving
"""
