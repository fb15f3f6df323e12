"""Drives vLLM bucket by bucket (docs/internals/vllm.md): in our process next to vLLM's, and in vLLM's workers.

engine         the methods of an engine
processes      vLLM's processes in one pod; pod_part: those of a pod that does not lead
launch         starts vLLM's processes; cores: the engine cores among them
workers/       code inside vLLM's workers: it runs a bucket as a dummy batch
ranks          calls all workers, and combines their answers; memory: the memory of each
warm_shapes    the shapes that are warm on a CPU
watch          notices when a process of vLLM ends or hangs while vLLM's own application serves
greedy         refuses requests that would end the model runner while it drafts
vllm_imports   the only module of our process that imports vLLM
versions       the releases that this runtime drives, by catalog/release_pairs.py
moved_modules  where older releases keep their modules
start_errors   the error of a start of vLLM that failed, with a reason and a sentence
"""
