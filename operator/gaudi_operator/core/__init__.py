"""Pure decisions: what was observed goes in, manifests, actions and status come out. No clock, no client.

`decide.py` walks over a frozen snapshot (`observed.py`, read by `resource.py`), in this order:
pods       what the pods say, and which gates open or close
admission  whether the spec can work at all
rollout    which revision runs, and the next step towards its replicas
children   the manifests that should exist, and the writes that are missing
status     conditions, figures and rows, and the events that follow from them

`state.py` gathers what is found, `actions.py` is what comes out, `deadlines.py` when to look again, `mending.py` whom
a problem asks for; `notation.py` has the text forms that all share.
"""
