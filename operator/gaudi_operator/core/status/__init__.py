"""What one reconcile has found out, as users see it: the status, its conditions and the events.

conditions   a judgement each, a Verdict; plan judges those of the plan, and says what it takes
figures      captured graphs, warm-up, memory, recompiles; pods: a row per pod; recipes: what sharing them did
cold_shapes  the bucket that would have caught most of what ran cold
status       puts them together, conditions by one table, throttled to what is worth a write
events       what has changed, for people who watch; refusal: a request that the API server refused
"""
