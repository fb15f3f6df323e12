"""The built-in engine: transformers models, paged KV cache, continuous batching, one static graph per bucket.

engine          the methods of an engine, and one thread for all device work
runner          loads the checkpoint, divides memory and runs batches in that thread
checkpoint      the files of a model
graphs          compiles and captures the forward of each bucket
model           the forward of a model over the buffers of a bucket
devices         memory, compilation and graphs of a CPU or a card
serving         runs the batches of the scheduler
sampler         selects tokens; tokenizer: converts tokens to text
block_manager   free and used KV blocks

scheduler and block_manager do not import torch.
"""
