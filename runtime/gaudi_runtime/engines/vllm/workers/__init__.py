"""Our part inside vLLM's worker processes, one for each rank: nothing here is imported by our own process.

hpu_worker.py and cpu_worker.py are the classes that vLLM is told to make, driven.py what they have in common: it takes
a verb and answers plain data. hpu.py and cpu.py do the verbs, a bucket a call; dummy_batches.py makes the batches that
run a bucket on a card. capabilities.py says beforehand whether this release of the plugin can be driven,
observed_shapes.py counts what is met while serving.
"""
