"""The vLLM engine: it controls vLLM bucket by bucket, from our process and in vLLM's workers (docs/internals/vllm.md).

engine         the methods of an engine
processes      vLLM's processes in one pod; pod_part: the processes of a pod that is not the leader
launch         starts vLLM's processes; cores: calls vLLM's engine cores
workers/       code inside vLLM's workers, which runs a bucket as a dummy batch
ranks          calls all workers and combines their answers; memory: the memory of each worker
warm_shapes    the shapes that are warm on a CPU
watch          detects that a process of vLLM has ended or hangs while vLLM's own application serves
greedy         rejects requests that would end the model runner while it drafts
vllm_imports   the only module of our process that imports vLLM
versions       the supported releases, from catalog/release_pairs.py
moved_modules  the places of moved modules in older releases
start_errors   the error of a failed start of vLLM, with a reason and a sentence
"""
