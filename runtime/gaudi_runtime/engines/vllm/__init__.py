"""Driving vLLM bucket by bucket (docs/internals/vllm.md): our own process beside vLLM's, and its workers inside them.

engine.py -> launch.py starts vLLM's processes; in each of them a class of workers/ takes our calls and runs one bucket
as a dummy batch. ranks.py asks all workers and folds their answers, memory.py the memory of each; watch.py sees that
they live while vLLM's own application serves. release.py alone imports vLLM in our process, of a release that
versions.py lets pass (by the table of catalog/pairs.py), from where old_releases.py says; start_errors.py has the words
for what did not start.
"""
