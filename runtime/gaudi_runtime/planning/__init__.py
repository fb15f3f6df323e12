"""Which buckets a server prepares: pure values and arithmetic (docs/internals/bucketing.md).

planner      a policy, limits and KV blocks -> BucketPlan: combinations of values, sifted by rules; or a bucket_file
kept_plans   the plans that were made last, for callers that request the same plan again
ranges       the ranges of a strategy, what users override, and the values of each dimension
optimal/     the buckets that pad a known traffic least
speculative  the decode buckets of steps that verify drafts
coverage     which batches have no bucket
old_releases plans of Gaudi software 1.22 and of unified attention
bare_limits  a server in the names and variables of the public planners
"""
