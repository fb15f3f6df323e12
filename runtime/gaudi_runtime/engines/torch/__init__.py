"""The built-in engine: transformers models, paged KV cache, continuous batching, one static graph per bucket.

engine          the methods of an engine, and one thread for all device work
runner          loads the checkpoint, divides memory and runs batches in that thread
checkpoint      the files of a model
graphs          compiles and captures a bucket: a forward of model over its buffers, by the methods of devices
serving         runs batches of scheduler, with tokens from sampler and text from tokenizer
block_manager   free and used KV blocks

scheduler and block_manager do not import torch.
"""
