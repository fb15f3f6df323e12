"""Which shapes a server prepares: pure values and arithmetic (docs/bucketing.md).

plan         a policy, limits and KV blocks -> BucketPlan, by any strategy
ranges       the ranges of a strategy, what users override, and the values of each dimension
planner      all combinations of the values, sifted by rules, are the plan; or a bucket_file is read
optimal/     the buckets that pad a known traffic least
bucket       Bucket and BucketPlan, and the lookup of the one that a batch is padded to
coverage     which batches have no bucket
old_releases plans of Gaudi software 1.22 and of unified attention, and bare limits
"""
