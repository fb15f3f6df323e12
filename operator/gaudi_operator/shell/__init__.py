"""The shell around the pure decisions of core: watches, requests, long-polls and the clock.

lease, leader  leader election, and everything that the leader runs
watching       the observed objects, from watches and from responses to writes
kinds          the kinds of these objects
polling        the reports of pods, by long-poll
policy_checks  the checks of new bucket policies
reconciling    one reconcile at a time per resource
writing        the writes of a decision
client         requests to the API server
metrics        logs, metrics and probes
"""
