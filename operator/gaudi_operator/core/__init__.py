"""Pure decisions, without a clock or a client. They turn the observed state into manifests, actions and status.

`decide.py` reads a frozen snapshot (`observed.py`, parsed by `resource.py`) and runs these steps in order:

  pods       parse what the pods report
  gate       open or close readiness gates
  admission  check whether the spec can work
  rollout    select the revision, and plan the next step towards its replicas
  children   build the child manifests, and find the missing writes
  status     build conditions, figures and rows, and the events that follow from them

`problems` finds what keeps pods from serving, `rendering` builds the pods of a new revision, and `classes.py` resolves
the class of a resource. `actions.py` defines the result, `deadlines.py` the time of the next reconcile,
`text_formats.py` and `quantities.py` shared text forms. Each folder imports only folders before it in this order: pods,
gate, problems, rendering, rollout, admission, children, status.
"""
