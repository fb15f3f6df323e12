"""Decisions as pure functions. They turn the observed state into manifests, actions and status.

`decide.py` reads a frozen snapshot (`observed.py`, parsed by `resource.py`) and runs these steps in order:

  pods       parse the reports of the pods
  gate       open or close readiness gates
  admission  check whether the spec can work
  rollout    select the revision, and plan the next step towards the desired replicas
  children   build the child manifests, and find the missing writes
  status     build conditions, figures and rows, and the events that follow from them

`problems` finds what keeps pods from serving, `rendering` builds the pods of a new revision, and `classes.py` resolves
the class of a resource. `bucket_policy_check.py` is the check of a new bucket policy, which runs outside of a decision.
`actions.py` defines the result of a decision. `deadlines.py` calculates the time of the next reconcile.
`text_formats.py` and `quantities.py` define shared text forms. Each folder imports only from folders that precede it in
this list: pods, gate, problems, rendering, rollout, admission, children, status.
"""
