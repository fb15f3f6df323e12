"""The status of a resource as users see it: conditions, figures, rows of pods, and events.

condition_table  all conditions, with their meanings and the functions that judge them
conditions       the functions that judge the conditions of replicas, each of which returns a Verdict
spec_conditions  the conditions about the plan, the settings and the class
warmup_figures   status.plan, captured graphs, warm-up progress, recompilations and shared recipes
pods             one row per pod
cold_shapes      the most frequent batches without a warm graph
status_builder   builds the status, and throttles its writes
events           events for users, derived from status changes
refusal          the status after the API server has refused a request, or if the spec cannot be read
"""
