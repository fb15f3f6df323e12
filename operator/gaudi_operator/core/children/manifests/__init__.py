"""One module per kind of child: pure functions from plain values to complete manifests.

`metadata.py` gives all of them name, labels, owner and the hash of what was applied. `pod_template.py` is what a
revision renders, of `container.py` and `volumes.py`; `replica_set.py` and `leader_worker_set.py` carry it.
"""
