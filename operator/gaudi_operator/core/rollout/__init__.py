"""From what is asked for to the next number of pods per revision (docs/how-to/revisions.md).

inputs               what makes a revision, and when the inputs of two are the same
revision             what a revision consists of, and the one that the spec asks for
controller_revision  the kept revisions, and why one was given up
target               which revision runs, the desired or the last good one, and whether it is on trial
mode                 next to old pods or in their place; planner: the next scale step
rollout              calls all of these in order, and finds the worst problem
replicas             the workloads: as counted for the planner, and as written; scale_down: which pods go first
backoff              how long no new pod of a revision is made after its pods have ended
state                what one reconcile has found, gathered once
"""
