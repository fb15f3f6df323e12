"""Rollouts: from the desired spec to the next number of pods per revision (docs/how-to/revisions.md).

inputs               the fields of a spec that define a revision, and the comparison of such fields
revision             the contents of a revision
desired_revision     the revision that the spec requests
controller_revision  revisions that are stored as ControllerRevisions, and their failure annotations
revision_choice      the revision to run (the desired or the last good revision), and canary trials
room                 surge next to old pods, or replacement in place if there is no room
scale_step           the next scale step
rollout_plan         runs these steps in order, and finds the worst problem
live_workloads       the ReplicaSets and LeaderWorkerSets, and the revisions that they run
replicas             replica counts of the workloads, as observed and as written
scale_down           the pods that a smaller ReplicaSet removes first
backoff              the pause before new pods of a revision whose pods end repeatedly
state                the data of one reconcile, collected once
"""
