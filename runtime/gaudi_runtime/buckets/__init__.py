"""The shapes of a server: pure values, which every other folder may use.

bucket          Bucket and BucketPlan
lookup          the bucket that a batch is padded to, or the shape of a batch that has none
kv_blocks       how many KV blocks there are, and how many a batch can refer to
attention_bias  the prompt buckets whose attention a card cannot compute
"""
