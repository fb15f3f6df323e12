"""One reconcile after the other for each resource, a few at a time.

reconcile        observe, decide, write, show
resource_worker  what is needed between two reconciles of a resource
gates            those that are on their way, beside its reconciles
gate_writer      sends them, at once where a pod waits for its own
effects          all that these may touch, and how
first_passes     how far a new leader is with what was there before it
slots            which reconcile goes first when more are due than may run
"""
