"""The status of a resource as users see it: conditions, figures, rows of pods, and events.

conditions   one function per condition, each returns a Verdict
plan         the conditions and figures of the plan
figures      captured graphs, warm-up progress, memory and recompilations
pods         one row per pod
recipes      the effect of shared recipes
cold_shapes  the bucket that would have avoided most recompilations
status       assembles the status, and throttles its writes
events       events for users, derived from status changes
refusal      the status after the API server refused a request
"""
