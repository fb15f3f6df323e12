"""The status of a resource as users see it: conditions, figures, rows of pods, and events.

condition_table  all conditions, with their meanings and the functions that judge them
conditions       the functions that judge the conditions of replicas, each of which returns a Verdict
spec_conditions  the conditions about the plan and the settings
class_applied    the condition about the defaults of the class and the violations of a class in trial
plan             status.plan: the figures of the plan that a pod has reported
warmup_figures   captured graphs, warm-up progress, memory and recompilations
pods             one row per pod
recipes          the effect of shared recipes
cold_shapes      the most frequent batches without a warm graph
status_builder   builds the status, and throttles its writes
events           events for users, derived from status changes
refusal          the status after the API server has refused a request, or if the spec cannot be read
"""
