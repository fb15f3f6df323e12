"""Which shapes a server prepares: pure values and arithmetic (docs/bucketing.md).

policy       the ranges of a strategy: its defaults, and what users override
ranges       from a range to the values of its dimension
planner      all combinations of the values, sifted by the rules of bucket, are the BucketPlan; or bucket_file is read
bucket       Bucket and BucketPlan, and the lookup of the one that a batch is padded to
coverage     which batches have no bucket, found by staircases
old_releases plans of Gaudi software 1.22, and of unified attention
"""
