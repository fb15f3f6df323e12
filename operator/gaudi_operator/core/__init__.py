"""Pure decisions: what was observed goes in, manifests, actions and status come out. No clock, no client.

`decide.py` walks over a frozen snapshot (`observed.py`, read by `resource.py`), in this order:
pods       what the pods report
gate       which gates open or close
admission  whether the spec can work at all
rollout    which revision runs, and the next step towards its replicas
children   the manifests that should exist, and the writes that are missing
status     conditions, figures and rows, and the events that follow from them

`problems` has what keeps pods from serving, `rendering` makes the pods of a new revision, and `classes.py` finds the
class of a resource. `actions.py` is what comes out, `deadlines.py` says when to reconcile again, and `notation.py` and
`quantities.py` have shared text forms. Each folder imports only those before it in this order: pods, gate, problems,
rendering, rollout, admission, children, status.
"""
