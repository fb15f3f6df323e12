"""Rollouts: from the desired spec to the next number of pods per revision (docs/how-to/revisions.md).

revision             the contents of a revision, and the comparison of its inputs
controller_revision  revisions that are stored as ControllerRevisions, and their failure annotations
revision_choice      the revision that the spec requests, the revision to run, and canary trials
rollout_step         the next step: how many pods of each revision
rollout_plan         runs these steps in order, in the room for new pods, and finds the worst problem
workload_replicas    the workloads and their replica counts, as observed, as written, and as a class allows
scale_down           the pods that a smaller ReplicaSet removes first
backoff              the pause before new pods of a revision whose pods end repeatedly
state                the data of one reconcile, collected once
"""
