"""Pure decisions: what was observed goes in, manifests, actions and status come out. No clock, no client.

`decide.py` walks over a frozen snapshot (`observed.py`, read by `resource.py`), in this order:
pods       what the pods report, and which gates open or close
admission  whether the spec can work at all
rollout    which revision runs, and the next step towards its replicas
children   the manifests that should exist, and the writes that are missing
status     conditions, figures and rows, and the events that follow from them

`rendering` makes the pods of a new revision, `classes.py` finds the class of a resource. `actions.py` is what comes
out, `deadlines.py` when to reconcile again, `mending.py` who can mend a problem; `notation.py` has shared text forms.
Each folder imports only folders before it in this order: pods, rendering, rollout, admission, children, status.
"""
