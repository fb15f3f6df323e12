"""Planning of buckets: makes a BucketPlan from a policy, limits and KV blocks. Pure (docs/internals/planning.md).

planner      makes a BucketPlan from combinations of values, filtered by rules, or from a bucket_file
kept_plans   a cache of the last plans
ranges       the ranges of a strategy, the user's overrides, and the values of each dimension
optimal/     the buckets that pad a known traffic least
speculative  the decode buckets of steps that verify drafts
coverage     the admissible batches without a bucket
"""
