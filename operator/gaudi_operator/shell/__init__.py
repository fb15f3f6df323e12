"""Effects: watches, requests, long-polls and the clock around the pure decisions of core.

lease, lead     one replica leads and runs all that follows
watches         objects of all kinds go into the store, lists as a whole, and what belongs to a resource wakes its
                worker; reports follows each pod by long-poll
reconcile       a reconcile: observe, decide, write, show; a resource_worker remembers what is needed between reconciles
apply           writes of a plan (client is the way to the API server), then the status, with a refusal in it if there
                was one
events          at last, what has happened: events never tell of a write that was not made
monitoring      log lines, metrics and probes of this process
"""
