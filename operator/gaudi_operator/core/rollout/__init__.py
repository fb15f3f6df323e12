"""From what is asked for to the next number of pods per revision (docs/how-to/revisions.md).

revision    kept revisions, the one that the spec asks for, and why one was given up
target      which of them runs, that one or the last good one, and whether it is on trial
mode        beside old pods or in their place; planner: the next scale step
rollout     asks all of these in turn, and says what the worst problem is
replicas    the workloads: as counted for the planner, and as written; scale_down: which pods go first
backoff     how long no new pod of a revision is made after its pods have ended
state       what one reconcile has found, gathered once
"""
