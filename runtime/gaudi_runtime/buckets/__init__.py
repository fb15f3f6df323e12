"""The shapes of a server: pure values, which every other folder may use.

bucket          Bucket and BucketPlan, and the lookup of the one that a batch is padded to
attention_bias  the prompt buckets whose attention a card cannot compute
"""
