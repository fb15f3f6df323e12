"""Planning of buckets: from a policy, limits and KV blocks to a BucketPlan, all pure (docs/internals/bucketing.md).

planner      a policy, limits and KV blocks -> BucketPlan: combinations of values, filtered by rules; or a bucket_file
kept_plans   a cache of the last plans
ranges       the ranges of a strategy, what users override, and the values of each dimension
optimal/     the buckets that pad a known traffic least
speculative  the decode buckets of steps that verify drafts
coverage     the admissible batches without a bucket
old_releases plans of Gaudi software 1.22 and of unified attention
bare_limits  a server described by the names and variables of the public planners
"""
