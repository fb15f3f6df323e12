"""The built-in engine: transformers models, paged KV cache, continuous batching, one static graph per bucket.

engine.py has the verbs, and one thread for all device work. In it runner.py loads checkpoint.py, splits memory and runs
batches: graphs.py compiles and captures a bucket, a forward of model.py over its buffers.py, as devices.py knows how.
While it serves, serving.py asks scheduler.py for batches, sampler.py for tokens and tokenizer.py for text.
scheduler.py and block_manager.py import no torch.
"""
