"""Traffic: which shapes a server meets, learned from a trace of requests, and what a plan makes of them."""
