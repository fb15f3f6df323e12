"""Effects: watches, requests, long-polls and the clock around the pure decisions of core.

lease, lead     one replica leads and runs all that follows
handlers        watches: lists pass through watch_session, objects go into the store, and what belongs to a resource
                wakes its task; reports follows each pod by long-poll, fetch is one such question
reconcile       a pass: observe, decide, write, show; lane is what a resource's task remembers between passes
apply, status   writes of a plan (client is the way to the API server), the status; then events
failure         how a write that is refused shows in the status; backoff: when it is tried again
"""
