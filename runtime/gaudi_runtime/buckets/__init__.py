"""Buckets, the padded shapes of a server: pure values that every other folder may use.

bucket          one padded shape, and its weight
bucket_plan     all buckets of a server
lookup          the bucket that a batch is padded to, or the fallback shape of a batch without a bucket
kv_blocks       the number of KV blocks of a device, and the number that a batch can reference
attention_bias  the prompt buckets whose attention a card cannot compute
"""
