"""One reconcile after the other for each resource, a few at a time.

controller        which resource is reconciled when
triggers          how soon a change leads to a reconcile
slots             which reconcile goes first when more are due than may run
worker            what one resource's task remembers, and how it waits
reconcile         observe, decide, write, show
refusals          requests that were refused, and are not sent again at once
first_reconciles  how far a new leader is with what was there before it
"""
