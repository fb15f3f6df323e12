"""Effects: watches, requests, long-polls and the clock around the pure decisions of core.

lease, lead   one replica leads and runs all that follows
watching      what exists, and whom a change of it wakes; kinds says of which kinds
polling       what each pod reports of itself, by long-poll
plans         questions about plans, answered in a process of its own
reconciling   one reconcile after the other for each resource
writing       what a decision asks for; client is the way to the API server
metrics       what this process tells of itself
"""
