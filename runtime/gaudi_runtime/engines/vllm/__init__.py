"""Driving vLLM bucket by bucket (docs/vllm.md): our own process beside vLLM's, and its workers inside them.

engine.py -> launch.py starts vLLM's processes with arguments.py; in each of them worker.py takes our calls and hands
them to hpu.py or cpu.py, which run one bucket as a dummy batch. ranks.py asks all workers and folds their answers;
watch.py sees that they live while vLLM's own application serves. release.py alone imports vLLM in our process.
"""
