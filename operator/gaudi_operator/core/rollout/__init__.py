"""Rollouts: from the desired spec to the next number of pods per revision (docs/how-to/revisions.md).

inputs               the parts of a spec that make a revision, and the comparison of two sets of inputs
revision             the contents of a revision
desired_revision     the revision that the spec asks for
controller_revision  stored revisions as ControllerRevisions, and their failure annotations
revision_choice      the revision to run, which is the desired or the last good revision, and canary trials
room                 surge next to old pods, or replacement in place if there is no room
planner              the next scale step
rollout              runs these steps in order, and finds the worst problem
live_workloads       the ReplicaSets and LeaderWorkerSets, and the revisions that they run
replicas             replica counts of the workloads, as observed and as written
scale_down           the pods that a smaller ReplicaSet removes first
backoff              the pause before new pods of a revision whose pods keep ending
state                the data of one reconcile, gathered once
"""
